//! What one bad address and a cloud that hangs do to the others.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use civ_boot::Context;
use civ_boot::secrets::ProcessEnvironment;
use civ_boot::tasks::Tasks;
use civ_cloud::fake::FakeCloud;
use civ_cloud::{Cloud, Fault, FloatingIp, Page, ReadFault, WriteFault};
use civ_control_api::app::Caller;
use civ_control_api::app::agents::{Introduction, SelfCheckReport};
use civ_control_api::app::{App, AppError};
use civ_control_api::config::load;
use civ_orch::attempt::StateName;
use civ_store::{StoreError, leases, queue};
use civ_testkit::{address, eventually_within, fip, port, validator};
use civ_types::{Address, Family, FipId, PortId};
use tokio_util::sync::CancellationToken;

/// A cloud in memory with an illness.
#[derive(Debug)]
struct Ill {
    cloud: FakeCloud,
    /// Every release of these is answered 500.
    stuck: BTreeSet<FipId>,
    /// While set, reads of single addresses get no answer for that long, then a fault.
    hangs: Mutex<Option<Duration>>,
    n_hung: AtomicU32,
    /// Exists on two networks.
    twice: Mutex<Option<Address>>,
    /// While there is one, reads of one floating IP show it.
    old: Mutex<Option<FloatingIp>>,
}

impl Ill {
    fn new(stuck: &[u8]) -> Arc<Self> {
        let cloud = FakeCloud::new();
        for n in 1..=9 {
            cloud.add_port(port(n));
            cloud.add_fip(fip(address(n)), address(n), None);
        }
        Arc::new(Self {
            cloud,
            stuck: stuck.iter().map(|n| fip(address(*n))).collect(),
            hangs: Mutex::default(),
            n_hung: AtomicU32::new(0),
            twice: Mutex::default(),
            old: Mutex::default(),
        })
    }

    fn hang(&self, time: Option<Duration>) {
        *self.hangs.lock().unwrap() = time;
    }

    fn hung(&self) -> u32 {
        self.n_hung.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Cloud for Ill {
    fn families(&self) -> &[Family] {
        self.cloud.families()
    }

    async fn find(&self, address: Address) -> Result<Option<FloatingIp>, Fault> {
        let hangs = *self.hangs.lock().unwrap();
        if let Some(time) = hangs {
            tokio::time::sleep(time).await;
            self.n_hung.fetch_add(1, Ordering::SeqCst);
            return Err(Fault::cloud("no answer"));
        }
        if *self.twice.lock().unwrap() == Some(address) {
            let text = "it exists on more than one external network".to_owned();
            return Err(Fault::Address { text });
        }
        self.cloud.find(address).await
    }

    async fn get(&self, id: &FipId) -> Result<Option<FloatingIp>, Fault> {
        let old = self.old.lock().unwrap().clone();
        match old {
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

    async fn set_port(
        &self,
        id: &FipId,
        port: Option<&PortId>,
        revision: Option<u64>,
    ) -> Result<FloatingIp, WriteFault> {
        if port.is_none() && self.stuck.contains(id) {
            return Err(Fault::cloud("was answered 500").into());
        }
        self.cloud.set_port(id, port, revision).await
    }
}

struct Running {
    app: App,
    shutdown: CancellationToken,
    tasks: Tasks,
    _folder: tempfile::TempDir,
}

/// control-api on that cloud, with validators that have registered.
async fn started(cloud: Arc<Ill>, validators: u8, more: &str) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("control-api.yaml");
    let entries: String = (1..=validators)
        .map(|n| format!("  - {{ validator_id: v{n}, os_port_id: port-{n} }}\n"))
        .collect();
    let database = folder.path().join("test.db");
    let text = format!(
        "server: {{ listen_addr: 127.0.0.1:0 }}\n\
         database: {{ path: {} }}\n{more}validators:\n{entries}",
        database.display()
    );
    std::fs::write(&file, text).unwrap();
    let settings = load(&file).unwrap().settings;
    let shutdown = CancellationToken::new();
    let tasks = Tasks::new(shutdown.clone());
    let context = Context {
        shutdown: shutdown.clone(),
        tasks: tasks.clone(),
        environment: Arc::new(ProcessEnvironment),
    };
    let running = civ_control_api::start(settings, &context, cloud).await;
    let app = running.unwrap().app;
    for n in 1..=validators {
        app.agent_register(&validator(n), Introduction::default())
            .await
            .unwrap();
    }
    Running {
        app,
        shutdown,
        tasks,
        _folder: folder,
    }
}

impl Running {
    async fn enqueue(&self, n: u8) {
        self.app
            .ips_enqueue(&Caller::service("test"), &[address(n).to_string()])
            .await
            .unwrap();
    }

    async fn row(&self, n: u8) -> civ_orch::attempt::Row {
        self.app.ips_details(address(n)).await.unwrap().ip.attempt
    }

    async fn reaches(&self, n: u8, state: StateName) {
        let what = format!("{} is {state}", address(n));
        let look = async || (self.row(n).await.state == state).then_some(());
        eventually_within(&what, Duration::from_secs(10), look).await;
    }

    async fn end(self) {
        self.shutdown.cancel();
        self.tasks.ended().await;
    }
}

/// Rule 12: an outage is a refusal of every call. One floating IP that the cloud cannot release is
/// none, and the other validators go on.
#[tokio::test]
async fn rule_12_one_address_that_cannot_be_released_does_not_pause_the_others() {
    let running = started(Ill::new(&[1]), 2, "").await;
    running.enqueue(1).await;
    running.reaches(1, StateName::AwaitingSelfCheck).await;
    running
        .app
        .ips_cancel(&Caller::service("test"), address(1))
        .await
        .unwrap();
    eventually_within("three tries", Duration::from_secs(10), async || {
        let orders = running.app.read(leases::orders).await;
        let orders = orders.map_err(|error: StoreError| error).unwrap();
        (orders.first()?.tries >= 3).then_some(())
    })
    .await;
    running.enqueue(2).await;
    running.reaches(2, StateName::AwaitingSelfCheck).await;
    running.end().await;
}

/// While the cloud is away, releases wait with the claims, and one at a time finds out whether it
/// is back: eight that each went by their own pauses would all have been tried twice by the time
/// that the first of them has been tried three times.
#[tokio::test]
async fn releases_wait_out_an_outage() {
    const ALL: u8 = 8;
    let all: Vec<u8> = (1..=ALL).collect();
    let running = started(Ill::new(&all), ALL, "").await;
    for n in 1..=ALL {
        running.enqueue(n).await;
    }
    for n in 1..=ALL {
        running.reaches(n, StateName::AwaitingSelfCheck).await;
    }
    let list: Vec<Address> = all.iter().map(|n| address(*n)).collect();
    let cancelled = running.app.write(move |tx| {
        for address in list {
            queue::cancel(tx, address).unwrap();
        }
        Ok::<(), StoreError>(())
    });
    cancelled.await.unwrap();
    let tries = eventually_within("three tries of one", Duration::from_secs(20), async || {
        let orders = running.app.read(leases::orders).await;
        let orders = orders.map_err(|error: StoreError| error).unwrap();
        let tries: Vec<u32> = orders.iter().map(|order| order.tries).collect();
        (tries.len() == all.len() && tries.contains(&3)).then_some(tries)
    })
    .await;
    assert!(tries.iter().sum::<u32>() <= 13, "{tries:?}");
    running.end().await;
}

/// Rule 12: a cloud that does not answer uses up nobody's retries, however many wait for it.
#[tokio::test]
async fn rule_12_those_behind_a_hanging_cloud_lose_no_retries() {
    let cloud = Ill::new(&[]);
    let more = "openstack: { request_timeout_seconds: 1 }\n\
                orchestrator: { max_parallel_cloud_calls: 1, max_assign_retries: 0 }\n";
    let running = started(Arc::clone(&cloud), 7, more).await;
    // Wait for the first comparison, which claims wait for, too.
    running.enqueue(8).await;
    running.reaches(8, StateName::AwaitingSelfCheck).await;
    cloud.hang(Some(Duration::from_millis(990)));
    let list: Vec<_> = (1..=6).map(|n| address(n).to_string()).collect();
    running
        .app
        .ips_enqueue(&Caller::service("test"), &list)
        .await
        .unwrap();
    eventually_within("three calls", Duration::from_secs(20), async || {
        let mut claimed = 0;
        for n in 1..=6 {
            let row = running.row(n).await;
            assert_ne!(row.state, StateName::Failed, "{}", row.head.last_error);
            claimed += usize::from(row.state == StateName::AssigningFip);
        }
        assert!(claimed <= 1, "{claimed} wait for one call");
        (cloud.hung() >= 3).then_some(())
    })
    .await;
    cloud.hang(None);
    for n in 1..=6 {
        running.reaches(n, StateName::AwaitingSelfCheck).await;
    }
    running.end().await;
}

/// Rule 3: a release that found the address free may have read old news. It is looked for again
/// soon, not only at the next comparison by timer.
#[tokio::test]
async fn rule_03_a_release_that_read_old_news_leaves_nothing_behind() {
    let cloud = Ill::new(&[]);
    let before = cloud.cloud.get(&fip(address(1))).await.unwrap();
    let more = "openstack: { request_timeout_seconds: 1 }\n";
    let running = started(Arc::clone(&cloud), 1, more).await;
    running.enqueue(1).await;
    running.reaches(1, StateName::AwaitingSelfCheck).await;
    *cloud.old.lock().unwrap() = before;
    running
        .app
        .ips_cancel(&Caller::service("test"), address(1))
        .await
        .unwrap();
    eventually_within("no lease", Duration::from_secs(10), async || {
        let held = running.app.read(leases::held).await;
        let held = held.map_err(|error: StoreError| error).unwrap();
        held.is_empty().then_some(())
    })
    .await;
    assert_eq!(cloud.cloud.port_of(&fip(address(1))), Some(port(1)));
    *cloud.old.lock().unwrap() = None;
    eventually_within("a free address", Duration::from_secs(10), async || {
        cloud
            .cloud
            .port_of(&fip(address(1)))
            .is_none()
            .then_some(())
    })
    .await;
    running.end().await;
}

/// A report that is under way while the lease ends in silence is the next report: it ends the
/// silence, and the validator is not lost until its agent starts anew.
#[tokio::test]
async fn a_report_under_way_while_a_silence_begins_ends_it() {
    let more = "orchestrator: { lease_ttl_seconds: 2, self_check_timeout_seconds: 1 }\n";
    let running = started(Ill::new(&[]), 1, more).await;
    running.enqueue(1).await;
    running.reaches(1, StateName::AwaitingSelfCheck).await;
    let row = running.row(1).await;
    running.app.agent_reports(&validator(1)).await.unwrap();
    running.reaches(1, StateName::Queued).await;
    let report = SelfCheckReport {
        ip: row.head.ip,
        fence: Some(row.head.claim),
        success: true,
        detected: None,
        detail: String::new(),
    };
    let refused = running.app.agent_self_check(&validator(1), report).await;
    assert!(matches!(refused, Err(AppError::Conflict(_))), "{refused:?}");
    running.reaches(1, StateName::AwaitingSelfCheck).await;
    running.end().await;
}

/// Rule 8: an address that the cloud cannot tell from another fails in the end, and gives its
/// validator back.
#[tokio::test]
async fn rule_08_an_address_that_exists_twice_blocks_no_validator() {
    let cloud = Ill::new(&[]);
    *cloud.twice.lock().unwrap() = Some(address(1));
    let more = "orchestrator: { max_assign_retries: 1 }\n";
    let running = started(cloud, 1, more).await;
    running.enqueue(1).await;
    running.enqueue(2).await;
    running.reaches(2, StateName::AwaitingSelfCheck).await;
    running
        .app
        .ips_cancel(&Caller::service("test"), address(2))
        .await
        .unwrap();
    running.reaches(1, StateName::Failed).await;
    running.end().await;
}
