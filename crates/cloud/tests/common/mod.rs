//! A simulated OpenStack on a loopback port, and a client of ours for it.
#![expect(dead_code, reason = "every test program uses a part of it")]
#![expect(clippy::unwrap_used, reason = "a test")]

pub(crate) mod canned;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use civ_cloud::{Auth, Domain, OpenStack, OpenStackConfig, Scope, User};
use civ_cloudsim::{Action, Match, NoDataPlane, Rule, Setup, Sim};
use civ_types::{Address, PortId};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The simulated cloud, served for as long as this lives.
pub(crate) struct Served {
    pub(crate) sim: Sim,
    pub(crate) url: String,
    server: JoinSet<()>,
}

impl Served {
    pub(crate) async fn new(setup: Setup) -> Self {
        let _other_test_was_first = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let sim = Sim::new(setup, Arc::new(NoDataPlane)).unwrap();
        let mut server = JoinSet::new();
        let serving = sim.clone();
        server.spawn(async move { serving.serve(listener).await.unwrap() });
        Self { sim, url, server }
    }

    pub(crate) fn config(&self) -> OpenStackConfig {
        let setup = Setup::default();
        let domain = || Domain::Id("default".to_owned());
        OpenStackConfig {
            auth: Auth::Password {
                user: User::Name {
                    name: setup.username,
                    domain: domain(),
                },
                password: setup.password.into(),
                scope: Scope::ProjectName {
                    name: setup.project,
                    domain: domain(),
                },
            },
            auth_url: format!("{}/v3", self.url),
            region: Some("RegionOne".to_owned()),
            interface: "public".to_owned(),
            ca_file: None,
            floating_network: None,
            endpoint_override: None,
            request_timeout: Duration::from_secs(2),
            list_page_size: 200,
        }
    }

    pub(crate) fn client(&self) -> OpenStack {
        OpenStack::connect(self.config()).unwrap()
    }

    pub(crate) fn rule(&self, matches: Match, action: Action) {
        let name = format!("{action:?}");
        self.sim.add_rule(Rule {
            name,
            matches,
            action,
        });
    }

    /// How many calls of this kind were answered, or cut, so far.
    pub(crate) fn n_calls(&self, method: &str, path_prefix: &str) -> usize {
        let calls = self.sim.calls();
        let same = |call: &&civ_cloudsim::Call| {
            call.method == method && call.path.starts_with(path_prefix)
        };
        calls.iter().filter(same).count()
    }
}

pub(crate) fn ip(last: u8) -> IpAddr {
    IpAddr::from([203, 0, 113, last])
}

pub(crate) fn address(last: u8) -> Address {
    Address::from_ip(ip(last))
}

pub(crate) fn port(id: &str) -> PortId {
    PortId::parse(id).unwrap()
}
