//! A cloud whose 200 is not the present: reads served from a copy that lags behind, a write that is
//! answered without having been carried out, and one whose answer is half of before.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::sync::Mutex;

use async_trait::async_trait;
use civ_cloud::fake::FakeCloud;
use civ_cloud::guard::{Association, OwnPort, OwnPorts, Release, associate, release};
use civ_cloud::{Cloud, Fault, FloatingIp, Page, ReadFault, WriteFault};
use civ_types::{Address, Family, FipId, PortId};

/// A cloud in memory that can be made to tell old news.
#[derive(Debug)]
struct Lagging {
    cloud: FakeCloud,
    /// While there is one, every read shows it.
    old: Mutex<Option<FloatingIp>>,
    /// Writes to come that are answered with what was there before, and not carried out.
    ignored: Mutex<u32>,
    /// Whether the status is reported within a write, whose answer then has the count of after and
    /// the status of before.
    reports_at_once: bool,
}

fn port(id: &str) -> PortId {
    PortId::parse(id).unwrap()
}

fn fip() -> FipId {
    FipId::parse("fip-1").unwrap()
}

impl Lagging {
    fn new() -> Self {
        let cloud = FakeCloud::new();
        cloud.add_port(port("port-1"));
        cloud.add_fip(fip(), Address::parse("203.0.113.1").unwrap(), None);
        Self {
            cloud,
            old: Mutex::default(),
            ignored: Mutex::default(),
            reports_at_once: false,
        }
    }

    fn seen(&self) -> Option<FloatingIp> {
        self.old.lock().unwrap().clone()
    }
}

#[async_trait]
impl Cloud for Lagging {
    fn families(&self) -> &[Family] {
        self.cloud.families()
    }

    async fn find(&self, address: Address) -> Result<Option<FloatingIp>, Fault> {
        self.cloud.find(address).await
    }

    async fn get(&self, id: &FipId) -> Result<Option<FloatingIp>, Fault> {
        match self.seen() {
            Some(old) => Ok(Some(old)),
            None => self.cloud.get(id).await,
        }
    }

    async fn on_ports(&self, ports: &[PortId]) -> Result<Vec<FloatingIp>, Fault> {
        self.cloud.on_ports(ports).await
    }

    async fn page(&self, after: Option<&FipId>, limit: u32) -> Result<Page, ReadFault> {
        self.cloud.page(after, limit).await
    }

    async fn count(&self) -> Result<Option<u64>, ReadFault> {
        self.cloud.count().await
    }

    async fn set_port(
        &self,
        id: &FipId,
        port: Option<&PortId>,
        revision: Option<u64>,
    ) -> Result<FloatingIp, WriteFault> {
        let is_ignored = {
            let mut ignored = self.ignored.lock().unwrap();
            let is_ignored = *ignored > 0;
            *ignored = ignored.saturating_sub(1);
            is_ignored
        };
        if is_ignored {
            return Ok(self.cloud.get(id).await?.unwrap());
        }
        let mut answer = self.cloud.set_port(id, port, revision).await?;
        if self.reports_at_once {
            self.cloud.report_status(id);
            answer.revision = self.cloud.get(id).await?.unwrap().revision;
        }
        Ok(answer)
    }
}

fn ours() -> (OwnPorts, OwnPort) {
    let own = OwnPorts::new([port("port-1")]);
    let one = own.own(&port("port-1")).unwrap();
    (own, one)
}

/// The answer to the write says that it is ours; reads that are older than it say nothing.
#[tokio::test(start_paused = true)]
async fn an_association_is_not_taken_for_a_conflict_because_reads_lag() {
    let cloud = Lagging::new();
    let (own, one) = ours();
    let free = cloud.get(&fip()).await.unwrap().unwrap();
    *cloud.old.lock().unwrap() = Some(free.clone());
    let end = associate(&cloud, free, &one, &own).await;
    assert_eq!(cloud.cloud.port_of(&fip()), Some(port("port-1")));
    assert!(
        matches!(&end, Association::Associated { fip, .. } if fip.is_on(&port("port-1"))),
        "{end:?}"
    );
}

/// Some of Neutron's drivers report the status themselves, before the answer to the write.
#[tokio::test(start_paused = true)]
async fn a_status_reported_within_the_write_is_nobody_elses_change() {
    let cloud = Lagging {
        reports_at_once: true,
        ..Lagging::new()
    };
    let (own, one) = ours();
    let free = cloud.get(&fip()).await.unwrap().unwrap();
    let end = associate(&cloud, free.clone(), &one, &own).await;
    let after = free.revision.map(|n| n + 2);
    assert!(
        matches!(&end, Association::Associated { fip, adopted: false } if fip.revision == after),
        "{end:?}"
    );
}

/// 200 to a release that shows the address on our port still: it is not released.
#[tokio::test(start_paused = true)]
async fn rule_03_a_release_whose_answer_shows_our_port_is_not_over() {
    let cloud = Lagging::new();
    let (own, one) = ours();
    let free = cloud.get(&fip()).await.unwrap().unwrap();
    let _associated = associate(&cloud, free, &one, &own).await;
    *cloud.ignored.lock().unwrap() = 1;
    assert_eq!(release(&cloud, &fip(), &one).await, Release::Released);
    assert_eq!(cloud.cloud.port_of(&fip()), None);
    // A cloud that ignores us for ever is no released address either.
    let free = cloud.get(&fip()).await.unwrap().unwrap();
    let _associated = associate(&cloud, free, &one, &own).await;
    *cloud.ignored.lock().unwrap() = u32::MAX;
    let end = release(&cloud, &fip(), &one).await;
    assert!(matches!(end, Release::Failed(_)), "{end:?}");
}
