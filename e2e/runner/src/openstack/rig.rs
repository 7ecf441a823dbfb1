//! Owns the real Neutron as the suite of the product's client wants a cloud: the proxy brings its
//! troubles, a second client plays the others.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use civ_cloud::{Auth, Cloud, Domain, OpenStack, OpenStackConfig, Scope, User};
use civ_suite::{Rig, Trouble};
use civ_types::{Address, PortId};
use reqwest::Method;
use serde_json::json;
use tokio::time::Instant;

use super::cast::SOON;
use super::ground::Ground;
use super::lab::Facts;
use super::proxy::{Call, Deed, Fault, Proxy};
use super::rest::{Ask, Rest, text};

/// The project and its user.
const NAME: &str = "suite";
/// Its floating addresses: the suite knows them by their last number.
const OUTSIDE: [u8; 3] = [198, 19, 1];
/// The one with port forwardings.
const FORWARDED: u8 = 30;
/// The ports, and their fixed addresses' last numbers. The last one only forwards.
const PORTS: [(&str, u8); 5] = [
    ("port-1", 11),
    ("port-2", 12),
    ("port-x", 21),
    ("port-y", 22),
    ("port-forwarded", 31),
];

type Ids = BTreeMap<String, String>;

#[derive(Debug, Default)]
struct There {
    ports: Ids,
    /// Floating IPs by address.
    fips: BTreeMap<Ipv4Addr, String>,
}

/// The project `suite` of the lab.
pub(crate) struct Real {
    ground: Ground,
    client: OpenStack,
    marking: OpenStack,
    facts: Facts,
    proxy: Arc<Proxy>,
    there: Arc<Mutex<There>>,
}

fn outside(last: u8) -> Ipv4Addr {
    let [a, b, c] = OUTSIDE;
    Ipv4Addr::new(a, b, c, last)
}

fn config(facts: &Facts) -> OpenStackConfig {
    let domain = || Domain::Id("default".to_owned());
    let name = || NAME.to_owned();
    OpenStackConfig {
        auth: Auth::Password {
            user: User::Name {
                name: name(),
                domain: domain(),
            },
            password: facts.secret.clone().into(),
            scope: Scope::ProjectName {
                name: name(),
                domain: domain(),
            },
        },
        auth_url: facts.auth_url.clone(),
        region: Some("RegionOne".to_owned()),
        interface: "public".to_owned(),
        ca_file: None,
        floating_network: None,
        endpoint_override: None,
        request_timeout: Duration::from_secs(30),
        list_page_size: 200,
    }
}

impl Real {
    /// Lays the project's ground. `proxy` is what the catalog calls Neutron.
    ///
    /// # Errors
    ///
    /// When Neutron refuses.
    pub(crate) async fn new(facts: &Facts, proxy: Arc<Proxy>) -> Result<Self> {
        let [a, b, c] = OUTSIDE;
        let cidrs = [format!("{a}.{b}.{c}.0/24")];
        let ground = Ground::make(facts, NAME, &cidrs, "10.91.0.0/24").await?;
        Ok(Self {
            ground,
            client: OpenStack::connect(config(facts))?,
            marking: OpenStack::connect(config(facts))?.marking(true),
            facts: facts.clone(),
            proxy,
            there: Arc::default(),
        })
    }

    /// Everything as each test of the suite expects it.
    ///
    /// # Errors
    ///
    /// When Neutron refuses.
    pub(crate) async fn reset(&self) -> Result<()> {
        let wanted = PORTS.map(|(name, last)| (name.to_owned(), Ipv4Addr::new(10, 91, 0, last)));
        let addresses: Vec<Ipv4Addr> = (10..20).chain([FORWARDED]).map(outside).collect();
        let ports = self.ground.ports(&wanted).await?;
        let fips = self.ground.floating_ips(&addresses).await?;
        self.forward(&fips, &ports).await?;
        *self.there() = There { ports, fips };
        self.proxy.forget();
        Ok(())
    }

    /// What a test scripted has happened.
    ///
    /// # Errors
    ///
    /// Says what did not.
    pub(crate) fn demand_all_met(&self) -> Result<()> {
        let faults = self.proxy.forget();
        if !faults.is_empty() {
            bail!("{}", faults.join("; "));
        }
        Ok(())
    }

    async fn forward(&self, fips: &BTreeMap<Ipv4Addr, String>, ports: &Ids) -> Result<()> {
        let id = fips.get(&outside(FORWARDED)).context("no such address")?;
        let path = format!("floatingips/{id}/port_forwardings");
        let there = self.ground.rest.all_of(&path, "port_forwardings").await?;
        if there.is_empty() {
            let forwarding = json!({"protocol": "tcp", "external_port": 2222, "internal_port": 22,
                "internal_ip_address": "10.91.0.31", "internal_port_id": ports["port-forwarded"]});
            let body = json!({ "port_forwarding": forwarding });
            self.ground
                .rest
                .must(Ask::with(Method::POST, path, &body))
                .await?;
        }
        Ok(())
    }

    fn there(&self) -> MutexGuard<'_, There> {
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn port_id(&self, name: &str) -> String {
        // A name that the suite made up is sent as it is, and refused.
        let there = self.there();
        there
            .ports
            .get(name)
            .cloned()
            .unwrap_or_else(|| name.to_owned())
    }

    fn fip_id(&self, last: u8) -> String {
        self.there()
            .fips
            .get(&outside(last))
            .cloned()
            .unwrap_or_default()
    }

    /// Another client binds the call's floating IP to `port-x`.
    fn take(&self) -> Deed {
        let (rest, port) = (self.ground.rest.clone(), self.port_id("port-x"));
        Box::new(move |call| Box::pin(async move { rest.bind(id_of(&call), Some(&port)).await }))
    }

    /// What stands in for the agents has reported the call's floating IP, which is free, as such.
    fn reported(&self) -> Deed {
        let rest = self.ground.rest.clone();
        Box::new(move |call| Box::pin(async move { status_is(&rest, id_of(&call), "DOWN").await }))
    }

    /// Only an administrator may delete the port of a VM.
    fn remove_port(&self, name: &str) -> Deed {
        let (rest, port) = (self.ground.admin.clone(), self.port_id(name));
        Box::new(move |_| Box::pin(async move { rest.delete(format!("ports/{port}")).await }))
    }
}

/// The floating IP of a write's path.
pub(super) fn id_of(call: &Call) -> &str {
    call.path.rsplit('/').next().unwrap_or_default()
}

/// Waits until the floating IP has this status.
async fn status_is(rest: &Rest, id: &str, status: &str) -> Result<()> {
    let end = Instant::now() + SOON;
    loop {
        let rows = rest.all("floatingips", &format!("id={id}")).await?;
        if rows.iter().any(|row| text(row, "status") == status) {
            return Ok(());
        }
        if end < Instant::now() {
            bail!("waited {SOON:?} in vain for {id} to be {status}: {rows:?}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn remove_marker(rest: Rest, call: Call) -> Result<()> {
    let pairs = call.query.split('&');
    let marker = pairs.filter_map(|pair| pair.strip_prefix("marker=")).next();
    let marker = marker.context("the page has no marker")?;
    // The floating IP with port forwardings cannot be deleted before they are.
    let path = format!("floatingips/{marker}/port_forwardings");
    for forwarding in rest.all_of(&path, "port_forwardings").await? {
        rest.delete(format!("{path}/{}", text(&forwarding, "id")))
            .await?;
    }
    rest.delete(format!("floatingips/{marker}")).await
}

/// A rig that cannot do what it is told makes the test fail.
#[expect(
    clippy::expect_used,
    reason = "a rig is a part of tests, which fail by panicking"
)]
impl Rig for Real {
    fn cloud(&self) -> &dyn Cloud {
        &self.client
    }

    fn script(&self, trouble: Trouble) {
        let fault = match trouble {
            Trouble::LostBefore => Fault::CutBefore,
            Trouble::LostAfter => Fault::CutAfter,
            // The client reads at once, and 0.25, 0.75 and 1.75 s later.
            Trouble::LandsLate => Fault::Late(Duration::from_millis(300)),
            Trouble::TakenBefore => Fault::Before(self.take()),
            Trouble::TakenBeforeUnseen => Fault::BeforeUnseen(self.take()),
            Trouble::TakenAfter => Fault::After(self.take()),
            Trouble::ReportedBefore => Fault::Before(self.reported()),
            Trouble::ReportedBeforeUnseen => Fault::BeforeUnseen(self.reported()),
            Trouble::PortVanishes => Fault::Before(self.remove_port("port-1")),
            Trouble::TooMany => Fault::Answer {
                status: 429,
                retry_after: Some(7),
            },
        };
        self.proxy.next(Call::is_write, fault);
    }

    async fn rebind(&self, last: u8, port: Option<&str>) {
        let (id, port) = (self.fip_id(last), port.map(|name| self.port_id(name)));
        let bound = self.ground.rest.bind(&id, port.as_deref()).await;
        bound.expect("another client binds");
    }

    fn marking(&self) -> &dyn Cloud {
        &self.marking
    }

    async fn leave_active(&self, last: u8, port: &str) {
        let report_after = |ms| {
            let said = self.facts.status_after(Some(Duration::from_millis(ms)));
            said.expect("the file for what stands in for the agents is written");
        };
        report_after(100);
        self.rebind(last, Some(port)).await;
        let bound = status_is(&self.ground.rest, &self.fip_id(last), "ACTIVE").await;
        bound.expect("the agents report");
        // Long enough to be read before the report comes.
        report_after(1_000);
        self.rebind(last, None).await;
    }

    async fn remove_fip(&self, last: u8) {
        let path = format!("floatingips/{}", self.fip_id(last));
        let removed = self.ground.rest.delete(path).await;
        removed.expect("another client deletes");
    }

    fn remove_marker(&self, nth: u32) {
        let rest = self.ground.rest.clone();
        let deed: Deed = Box::new(move |call| Box::pin(remove_marker(rest, call)));
        let is_page = |call: &Call| call.method == "GET" && call.path == "/v2.0/floatingips";
        self.proxy.nth(nth, is_page, Fault::Before(deed));
    }

    async fn port_of(&self, last: u8) -> Option<String> {
        let query = format!("floating_ip_address={}", outside(last));
        let rows = self.ground.rest.all("floatingips", &query).await;
        let rows = rows.expect("Neutron lists");
        let id = rows.first().map(|row| text(row, "port_id"))?;
        let there = self.there();
        let found = there.ports.iter().find(|(_, port)| port.as_str() == id);
        found.map(|(name, _)| name.clone())
    }

    fn n_writes(&self) -> usize {
        self.proxy
            .calls()
            .iter()
            .filter(|call| call.is_write())
            .count()
    }

    fn address(&self, last: u8) -> Address {
        Address::from_ip(outside(last).into())
    }

    fn port(&self, name: &str) -> PortId {
        PortId::parse(&self.port_id(name)).expect("an id of Neutron is one of ours")
    }
}
