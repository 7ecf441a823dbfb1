//! The service in one thread, on a clock that stands still while there is work and a database whose
//! commits fail when a test wants it: what the simulation has found, each as short as it gets.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use civ_boot::Context;
use civ_boot::secrets::ProcessEnvironment;
use civ_boot::tasks::Tasks;
use civ_cloud::fake::{FakeCloud, Trouble};
use civ_control_api::app::agents::Introduction;
use civ_control_api::app::{App, Caller};
use civ_control_api::config::load;
use civ_control_api::runner::Gate;
use civ_control_api::{go_on, run_by_itself};
use civ_orch::attempt::StateName;
use civ_store::Store;
use civ_store::inline::Weather;
use civ_testkit::{address, fip, port, validator};
use civ_types::{Clock, Family, PortId, Utc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// tokio's clock as the product's.
#[derive(Debug)]
struct Paused(Instant);

impl Clock for Paused {
    fn now(&self) -> Utc {
        civ_testkit::START.plus(self.0.elapsed())
    }
}

/// Fails the first commit after the first write to the cloud.
#[derive(Debug)]
struct Disk {
    cloud: Arc<FakeCloud>,
    is_bad: bool,
    failed: AtomicBool,
}

impl Weather for Disk {
    fn before(&self) -> Duration {
        Duration::ZERO
    }

    fn after(&self) -> Duration {
        Duration::ZERO
    }

    fn breaks(&self) -> bool {
        self.is_bad && !self.cloud.writes().is_empty() && !self.failed.swap(true, Ordering::SeqCst)
    }

    fn committed(&self, _jobs: usize, _told: bool) {}
}

static DATABASES: AtomicU32 = AtomicU32::new(0);

/// The service with one validator that has registered, and one address that it will claim.
async fn started(cloud: &Arc<FakeCloud>, is_bad: bool) -> (App, Arc<Disk>, CancellationToken) {
    cloud.add_port(port(1));
    cloud.add_port(port(2));
    cloud.add_port(PortId::parse("foreign").unwrap());
    cloud.add_fip(fip(address(1)), address(1), None);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("control-api.yaml");
    let text = "validators:\n  - { validator_id: v1, os_port_id: port-1 }\n";
    std::fs::write(&file, text).unwrap();
    let settings = load(&file).unwrap().settings;
    let shutdown = CancellationToken::new();
    let context = Context {
        shutdown: shutdown.clone(),
        tasks: Tasks::new(shutdown.clone()),
        environment: Arc::new(ProcessEnvironment),
    };
    let disk = Arc::new(Disk {
        cloud: Arc::clone(cloud),
        is_bad,
        failed: AtomicBool::new(false),
    });
    let n = DATABASES.fetch_add(1, Ordering::SeqCst);
    let uri = format!("file:/inline-{n}?vfs=memdb");
    let clock: Arc<dyn Clock> = Arc::new(Paused(Instant::now()));
    let (at, weather) = (Arc::clone(&clock), Arc::clone(&disk));
    let open = async move |rules, on_commit| {
        let opened = Store::open_inline(Path::new(&uri), at, rules, on_commit, weather);
        Ok(opened.unwrap())
    };
    let app = go_on(&settings, &[Family::V4], clock, open).await.unwrap();
    let gate = Arc::new(Gate::default());
    run_by_itself(
        &app,
        &settings,
        &context,
        Arc::<FakeCloud>::clone(cloud),
        gate,
    );
    app.agent_register(&validator(1), Introduction::default())
        .await
        .unwrap();
    let list = [address(1).to_string()];
    app.ips_enqueue(&caller(), &list).await.unwrap();
    (app, disk, shutdown)
}

fn caller() -> Caller {
    Caller::service("test")
}

async fn state(app: &App) -> StateName {
    let details = app.ips_details(address(1)).await.unwrap();
    details.ip.attempt.state
}

async fn events(app: &App) -> Vec<String> {
    let details = app.ips_details(address(1)).await.unwrap();
    let all = details.events.into_iter();
    all.map(|event| event.event_type).collect()
}

/// A conflict is seen once: by the revisions before and after our write. Whoever asks again finds
/// the address on our port and takes it for ours.
#[tokio::test(start_paused = true)]
async fn rule_02_a_conflict_is_told_even_if_the_commit_that_tells_it_fails_at_first() {
    let cloud = Arc::new(FakeCloud::new());
    let taken_by = PortId::parse("foreign").unwrap();
    cloud.script(Trouble::TakenBeforeUnseen(taken_by));
    let (app, disk, shutdown) = started(&cloud, true).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(disk.failed.load(Ordering::SeqCst), "no commit failed");
    assert_eq!(state(&app).await, StateName::Occupied);
    let told = events(&app).await;
    assert!(told.iter().any(|kind| kind == "fip_conflict"), "{told:?}");
    assert_eq!(cloud.port_of(&fip(address(1))), None, "not released");
    shutdown.cancel();
}

/// The answer to a write is lost, the attempt is broken off, the validator gets another port, and
/// only then the write lands: nobody's address on nobody's port.
#[tokio::test(start_paused = true)]
async fn rule_03_a_write_that_lands_on_a_port_that_was_given_up_is_taken_back() {
    let cloud = Arc::new(FakeCloud::new());
    // Four reads settle the answer, one is the release's; the next one is the comparison's.
    cloud.script(Trouble::LandsAfterReads(5));
    let (app, _disk, shutdown) = started(&cloud, false).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    app.ips_cancel(&caller(), address(1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    app.config_validator_set(&caller(), validator(1), port(2))
        .await
        .unwrap();
    assert_eq!(cloud.port_of(&fip(address(1))), None, "landed too early");
    tokio::time::sleep(Duration::from_secs(500)).await;
    assert!(cloud.writes().len() > 1, "never landed, or never released");
    assert_eq!(cloud.port_of(&fip(address(1))), None, "not released");
    let told = app.events_latest(50).await.unwrap();
    assert!(told.iter().any(|one| one.event_type == "reconciled"));
    shutdown.cancel();
}

/// What somebody else binds to a port that was ours is theirs.
#[tokio::test(start_paused = true)]
async fn rule_04_another_address_on_a_port_that_was_given_up_is_left_alone() {
    let cloud = Arc::new(FakeCloud::new());
    cloud.script(Trouble::LostBefore);
    let (app, _disk, shutdown) = started(&cloud, false).await;
    cloud.add_fip(fip(address(2)), address(2), None);
    tokio::time::sleep(Duration::from_secs(1)).await;
    app.ips_cancel(&caller(), address(1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    app.config_validator_set(&caller(), validator(1), port(2))
        .await
        .unwrap();
    cloud.rebind(&fip(address(2)), Some(port(1)));
    tokio::time::sleep(Duration::from_secs(500)).await;
    assert_eq!(cloud.port_of(&fip(address(2))), Some(port(1)));
    shutdown.cancel();
}
