//! What is tried, in its order: each step knows what its absence means.

use std::collections::{BTreeMap, BTreeSet};

use civ_boot::chain::Chain;
use civ_cloud::survey::Port;
use civ_cloud::{Cloud as _, FloatingIp, OpenStack};
use civ_types::PortId;
use tokio::time::Instant;

use super::report::{Finding, Report};
use crate::config::Settings;

/// Extensions of Neutron without which some of our work is done in another way, and in which.
const EXTENSIONS: [(&str, &str); 7] = [
    (
        "standard-attr-revisions",
        "writes are not conditional: another writer at the same moment is seen only by reading back",
    ),
    (
        "revision-if-match",
        "writes are not conditional: another writer at the same moment is seen only by reading back",
    ),
    (
        "pagination",
        "lists may come as a whole, whatever list_page_size says",
    ),
    (
        "sorting",
        "pages may come in any order: a list that changes meanwhile may have to be read again",
    ),
    (
        "fip-port-details",
        "who uses an occupied address is told by the id of its port alone",
    ),
    (
        "expose-port-forwarding-in-fip",
        "an address with port forwardings is known by its router alone",
    ),
    (
        "quota_details",
        "the cloud does not count floating IPs: a scan is read twice to know that it is complete",
    ),
];

/// The ports of the validators, and where each is configured.
#[derive(Debug, Default)]
pub(super) struct Ports(BTreeMap<PortId, BTreeSet<String>>);

impl Ports {
    /// From the file and, if it exists, from the database, which is only read.
    pub(super) fn of(settings: &Settings, report: &mut Report) -> Self {
        let mut ports = Self::default();
        for one in &settings.seed.validators {
            let place = format!("{} (YAML)", one.validator_id);
            ports.add(one.os_port_id.clone(), place);
        }
        let path = &settings.database_path;
        if path.exists() {
            match civ_store::peek::validators(path) {
                Ok(stored) => stored
                    .into_iter()
                    .for_each(|(id, port)| ports.add(port, format!("{id} (database)"))),
                Err(error) => report.add(Finding::failed(
                    "database",
                    format!("{} cannot be read: {}", path.display(), Chain(&error)),
                    "see database.path; as the user of the service it may be readable",
                )),
            }
        }
        ports
    }

    fn add(&mut self, port: PortId, place: String) {
        self.0.entry(port).or_default().insert(place);
    }
}

/// Tries everything; what cannot be tried after a failure is left out.
pub(super) async fn all(
    client: &OpenStack,
    settings: &Settings,
    ports: &Ports,
    report: &mut Report,
) {
    let Some(project) = login(client, report).await else {
        return;
    };
    if !extensions(client, report).await {
        return;
    }
    quota(client, report).await;
    if network(client, settings, report).await {
        page(client, settings.openstack.list_page_size, report).await;
    }
    validators(client, &project, ports, report).await;
}

/// Says the project's id.
async fn login(client: &OpenStack, report: &mut Report) -> Option<String> {
    let login = match client.login().await {
        Ok(login) => login,
        Err(fault) => {
            let remedy = "check Keystone's address, user, password, project and their domains, \
                 region and interface";
            report.add(Finding::failed("token", fault.to_string(), remedy));
            return None;
        }
    };
    let roles = login.roles.join(", ");
    let (project, id) = (&login.project_name, &login.project_id);
    let seconds = login.lives.as_secs();
    let text = format!("for {seconds} s, project {project:?} ({id}), roles: {roles}");
    if login.roles == ["reader"] {
        let remedy = "give the user the role member: a reader may associate nothing";
        report.add(Finding::failed("token", text, remedy));
    } else {
        report.add(Finding::ok("token", text));
    }
    report.add(Finding::ok("endpoint", login.network_url));
    Some(login.project_id)
}

/// Says whether Neutron answers at all.
async fn extensions(client: &OpenStack, report: &mut Report) -> bool {
    let there = match client.extensions().await {
        Ok(there) => there,
        Err(fault) => {
            let remedy = "is it Neutron's address? See region, interface and \
                 openstack.network_endpoint_override";
            report.add(Finding::failed("neutron", fault.to_string(), remedy));
            return false;
        }
    };
    let text = format!("answers, {} extensions", there.len());
    report.add(Finding::ok("neutron", text));
    if there.contains("router") {
        report.add(Finding::ok("extension router", "floating IPs are there"));
    } else {
        let remedy = "this Neutron has no floating IPs: the service plug-in router is off";
        report.add(Finding::missing("extension router", "not offered", remedy));
    }
    for (alias, consequence) in EXTENSIONS {
        let check = format!("extension {alias}");
        report.add(if there.contains(alias) {
            Finding::ok(check, "offered")
        } else {
            Finding::does_without(check, "not offered", consequence)
        });
    }
    true
}

async fn quota(client: &OpenStack, report: &mut Report) {
    report.add(match client.quota().await {
        Ok(Some(quota)) => {
            let limit = quota.limit.map_or("no limit".to_owned(), |n| n.to_string());
            let used = quota.used.map_or("not told".to_owned(), |n| n.to_string());
            Finding::ok(
                "quota of floating IPs",
                format!("used: {used}, limit: {limit}"),
            )
        }
        Ok(None) => Finding::does_without(
            "quota of floating IPs",
            "not shown to us",
            "a scan is read twice to know that it is complete",
        ),
        Err(fault) => Finding::does_without(
            "quota of floating IPs",
            fault.to_string(),
            "a scan is read twice to know that it is complete",
        ),
    });
}

/// Says whether addresses can be read.
async fn network(client: &OpenStack, settings: &Settings, report: &mut Report) -> bool {
    let wanted = settings.openstack.floating_network.as_deref();
    let Some(wanted) = wanted else {
        let text = "not set: addresses of all external networks count";
        report.add(Finding::ok("floating_network", text));
        return true;
    };
    match client.floating_network().await {
        Ok(id) => {
            let text = format!("{wanted:?} is {}", id.unwrap_or_default());
            report.add(Finding::ok("floating_network", text));
            true
        }
        Err(fault) => {
            let remedy = "`openstack network list --external` names those there are";
            report.add(Finding::missing(
                "floating_network",
                fault.to_string(),
                remedy,
            ));
            false
        }
    }
}

async fn page(client: &OpenStack, size: u32, report: &mut Report) {
    let began = Instant::now();
    let page = match client.page(None, size).await {
        Ok(page) => page,
        Err(fault) => {
            let remedy = "the project's floating IPs must be readable: see roles and policy";
            report.add(Finding::failed("floating IPs", fault.to_string(), remedy));
            return;
        }
    };
    let n = page.rows.len();
    let n_free = page.rows.iter().filter(|row| row.is_free).count();
    let more = if page.has_more { ", more follow" } else { "" };
    let ms = began.elapsed().as_millis();
    if n == 0 {
        let remedy = "make floating IPs in this project, or log in to the one that has them";
        report.add(Finding::missing("floating IPs", "there are none", remedy));
        return;
    }
    let text = format!("one page in {ms} ms: {n}, of these {n_free} free{more}");
    report.add(Finding::ok("floating IPs", text));
}

async fn validators(client: &OpenStack, project: &str, ports: &Ports, report: &mut Report) {
    if ports.0.is_empty() {
        let remedy = "configure validators with the ports of their VMs";
        report.add(Finding::missing(
            "validator ports",
            "there are none",
            remedy,
        ));
        return;
    }
    let ids: Vec<PortId> = ports.0.keys().cloned().collect();
    let mut on = BTreeMap::new();
    match client.on_ports(&ids).await {
        Ok(all) => on.extend(
            all.into_iter()
                .filter_map(|fip| Some((fip.port.clone()?, fip))),
        ),
        Err(fault) => {
            let remedy = "the project's floating IPs must be readable by port";
            report.add(Finding::failed(
                "addresses on ports",
                fault.to_string(),
                remedy,
            ));
        }
    }
    for (id, places) in &ports.0 {
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        let check = format!("port {id} of {}", places.join(", "));
        report.add(match client.port(id).await {
            Ok(Some(port)) => judge(check, &port, project, on.get(id)),
            Ok(None) => Finding::missing(
                check,
                "the cloud has no such port, or shows none to this project",
                "take the id from `openstack port list --server VM`",
            ),
            Err(fault) => Finding::failed(check, fault.to_string(), "see the line on the token"),
        });
    }
}

fn judge(check: String, port: &Port, project: &str, on: Option<&FloatingIp>) -> Finding {
    let fixed = port.fixed_v4.join(", ");
    if !port.project_id.is_empty() && port.project_id != project {
        let text = format!("it is of the project {}", port.project_id);
        let remedy = "log in to that project, or take a port of this one";
        return Finding::failed(check, text, remedy);
    }
    match port.fixed_v4.len() {
        1 => {}
        0 => {
            let remedy = "a floating IP needs a fixed IPv4 address behind it";
            return Finding::failed(check, "it has no fixed IPv4 address", remedy);
        }
        _ => {
            let text = format!("it has several fixed IPv4 addresses: {fixed}");
            return Finding::failed(check, text, "leave it one: the cloud cannot choose");
        }
    }
    if port.device_id.starts_with("PENDING") {
        let remedy = "wait until the cloud has made it, or has removed what was left of it";
        return Finding::failed(check, "it is still being made", remedy);
    }
    if port.device_id.is_empty() {
        let remedy = "attach it to the validator's VM";
        return Finding::failed(check, format!("{fixed}, but it is on no VM"), remedy);
    }
    if port.is_up == Some(false) {
        let remedy = "`openstack port set --enable` switches it on";
        return Finding::failed(check, format!("{fixed}, but it is switched off"), remedy);
    }
    let holds = on.map_or_else(String::new, |fip| {
        format!(", has {} now, which will be released", fip.address)
    });
    let text = format!(
        "{fixed}{holds}; whether its subnet has a router to the external network shows only at an \
         association"
    );
    Finding::ok(check, text)
}
