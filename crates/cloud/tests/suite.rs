//! The suite of a [`Cloud`] against the cloud in memory, and against OpenStack's client with the
//! simulated OpenStack over HTTP.
#![expect(clippy::unwrap_used, reason = "a test")]

mod common;

use civ_cloud::fake::{FakeCloud, PageTrouble, Trouble as FakeTrouble};
use civ_cloud::{Cloud, Fault, OpenStack};
use civ_cloudsim::{Action, AnswerBody, FipSetup, Match, PortSetup, Setup};
use civ_suite::{Rig, Trouble};
use civ_types::{Address, FipId, PortId};
use common::{Served, address, ip, port};

struct InMemory(FakeCloud);

impl InMemory {
    fn new() -> Self {
        let cloud = FakeCloud::new();
        for id in ["port-1", "port-2", "port-x", "port-y"] {
            cloud.add_port(port(id));
        }
        for last in (10..20).chain([30]) {
            cloud.add_fip(Self::id(last), address(last), None);
        }
        cloud.forward(&Self::id(30));
        Self(cloud)
    }

    fn id(last: u8) -> FipId {
        FipId::parse(&format!("fip-{last}")).unwrap()
    }
}

impl Rig for InMemory {
    fn cloud(&self) -> &dyn Cloud {
        &self.0
    }

    fn script(&self, trouble: Trouble) {
        let other = port("port-x");
        self.0.script(match trouble {
            Trouble::LostBefore => FakeTrouble::LostBefore,
            Trouble::LostAfter => FakeTrouble::LostAfter,
            Trouble::LandsLate => FakeTrouble::LandsAfterReads(2),
            Trouble::TakenBefore => FakeTrouble::TakenBefore(other),
            Trouble::TakenBeforeUnseen => FakeTrouble::TakenBeforeUnseen(other),
            Trouble::TakenAfter => FakeTrouble::TakenAfter(other),
            Trouble::ReportedBefore => FakeTrouble::ReportedBefore,
            Trouble::ReportedBeforeUnseen => FakeTrouble::ReportedBeforeUnseen,
            Trouble::PortVanishes => return self.0.remove_port(&port("port-1")),
            Trouble::TooMany => FakeTrouble::Refused(too_many()),
        });
    }

    async fn rebind(&self, last: u8, to: Option<&str>) {
        self.0.rebind(&Self::id(last), to.map(port));
    }

    async fn leave_active(&self, last: u8, to: &str) {
        self.0.rebind(&Self::id(last), Some(port(to)));
        self.0.report_status(&Self::id(last));
        self.0.rebind(&Self::id(last), None);
    }

    async fn remove_fip(&self, last: u8) {
        self.0.remove_fip(&Self::id(last));
    }

    fn remove_marker(&self, nth: u32) {
        for _ in 1..nth {
            self.0.script_page(None);
        }
        self.0.script_page(Some(PageTrouble::MarkerGone));
    }

    async fn port_of(&self, last: u8) -> Option<String> {
        let port = self.0.port_of(&Self::id(last))?;
        Some(port.to_string())
    }

    fn address(&self, last: u8) -> Address {
        address(last)
    }

    fn port(&self, name: &str) -> PortId {
        port(name)
    }

    fn n_writes(&self) -> usize {
        self.0.writes().len()
    }
}

struct OverHttp {
    served: Served,
    client: OpenStack,
    marking: OpenStack,
}

impl OverHttp {
    async fn new() -> Self {
        let mut setup = Setup::default();
        setup.ports.push(PortSetup {
            id: "port-y".to_owned(),
            fixed_ip: [10, 77, 0, 201].into(),
            ours: false,
        });
        setup.fips.push(FipSetup {
            address: ip(30),
            port: None,
            forwarded: true,
        });
        // Its status changes only when a test says so.
        setup.status_never.push(ip(13));
        let served = Served::new(setup).await;
        let (client, marking) = (served.client(), served.client().marking(true));
        Self {
            served,
            client,
            marking,
        }
    }
}

impl Rig for OverHttp {
    fn cloud(&self) -> &dyn Cloud {
        &self.client
    }

    fn script(&self, trouble: Trouble) {
        let other = "port-x".to_owned();
        let action = match trouble {
            Trouble::LostBefore => Action::CutBefore,
            Trouble::LostAfter => Action::CutAfter,
            // The client waits for 2 s, then reads at once, 0.25 s and 0.75 s later.
            Trouble::LandsLate => Action::DelayBefore { ms: 2_500 },
            Trouble::TakenBefore => Action::TakeBefore { port: other },
            Trouble::TakenBeforeUnseen => Action::TakeBeforeUnseen { port: other },
            Trouble::TakenAfter => Action::TakeAfter { port: other },
            Trouble::ReportedBefore => Action::ReportBefore,
            Trouble::ReportedBeforeUnseen => Action::ReportBeforeUnseen,
            Trouble::PortVanishes => Action::RemovePort {
                port: "port-1".to_owned(),
            },
            Trouble::TooMany => Action::Answer {
                status: 429,
                body: AnswerBody::Empty,
                retry_after: Some(7),
            },
        };
        self.served
            .rule(Match::next("PUT", "/v2.0/floatingips/"), action);
    }

    async fn rebind(&self, last: u8, to: Option<&str>) {
        let done = match to {
            Some(port) => self.served.sim.bind_foreign(ip(last), port).await,
            None => self.served.sim.unbind(ip(last)).await,
        };
        done.unwrap();
    }

    fn marking(&self) -> &dyn Cloud {
        &self.marking
    }

    async fn leave_active(&self, last: u8, to: &str) {
        self.rebind(last, Some(to)).await;
        self.served.sim.report_status(ip(last)).await;
        self.rebind(last, None).await;
    }

    async fn remove_fip(&self, last: u8) {
        self.served.sim.remove_fip(ip(last)).await;
    }

    fn remove_marker(&self, nth: u32) {
        let matches = Match {
            nth,
            ..Match::next("GET", "/v2.0/floatingips")
        };
        self.served.rule(matches, Action::RemoveMarker);
    }

    async fn port_of(&self, last: u8) -> Option<String> {
        assert_eq!(self.served.sim.faults(), Vec::<String>::new());
        let attached = self.served.sim.attached();
        let found = attached
            .into_iter()
            .find(|entry| entry.address == ip(last))?;
        Some(found.port)
    }

    fn address(&self, last: u8) -> Address {
        address(last)
    }

    fn port(&self, name: &str) -> PortId {
        port(name)
    }

    fn n_writes(&self) -> usize {
        self.served.n_calls("PUT", "/v2.0/floatingips/")
    }
}

fn too_many() -> Fault {
    Fault::Cloud {
        text: "too many requests".to_owned(),
        retry_after: Some(std::time::Duration::from_secs(7)),
    }
}

macro_rules! against_both {
    ($($name:ident)*) => {
        mod in_memory {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                civ_suite::$name(&super::InMemory::new()).await;
            })*
        }

        mod over_http {
            $(#[tokio::test]
            async fn $name() {
                civ_suite::$name(&super::OverHttp::new().await).await;
            })*
        }
    };
}

civ_suite::with_tests!(against_both);
