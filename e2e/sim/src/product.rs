//! One life of the product: its real use cases and runner, on the simulated cloud and clock and a
//! database in memory, in one thread.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use civ_boot::Context;
use civ_boot::secrets::ProcessEnvironment;
use civ_boot::tasks::Tasks;
use civ_control_api::app::App;
use civ_control_api::config::{Settings, load};
use civ_control_api::runner::Gate;
use civ_control_api::{go_on, run_by_itself};
use civ_store::Store;
use civ_store::inline::Weather;
use civ_types::{Clock, Family};
use fastrand::Rng;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::cloud::SimCloud;
use crate::rules::{GRACE, HEARTBEAT, LEASE, RECONCILE, WINDOW};
use crate::story::{Ground, SITES, VALIDATORS};
use crate::world::{REQUEST, SECOND, Shared};

thread_local! {
    static DICE: RefCell<Rng> = const { RefCell::new(Rng::with_seed(0)) };
}

/// Spreads the product's pauses.
fn dice() -> f64 {
    DICE.with_borrow_mut(Rng::f64)
}

/// Dice of a run.
pub(crate) fn take_dice(seed: u64) {
    DICE.with_borrow_mut(|dice| *dice = Rng::with_seed(seed ^ 0xD1CE));
}

/// The settings that all stories share, as an operator would write them.
pub(crate) fn settings() -> anyhow::Result<Settings> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("control-api.yaml");
    let validators: String = (1..=VALIDATORS)
        .map(|n| format!("  - {{ validator_id: v{n}, os_port_id: port-{n} }}\n"))
        .collect();
    let sites: String = (1..=SITES)
        .map(|n| format!("  - {{ site_id: site-{n} }}\n"))
        .collect();
    let text = format!(
        "orchestrator:\n  poll_interval_seconds: 5\n  lease_ttl_seconds: {LEASE}\n  \
         self_check_timeout_seconds: 5\n  checking_window_seconds: {WINDOW}\n  \
         heartbeat_timeout_seconds: {HEARTBEAT}\n  release_grace_seconds: {GRACE}\n  \
         reconcile_interval_seconds: {RECONCILE}\n  inbound_checks: {{ ports: [22], icmp: true }}\n\
         validators:\n{validators}sites:\n{sites}\
         targets: {{ web: [\"https://a.example\", \"https://b.example\"] }}\n\
         check_types:\n  - {{ name: https, enabled: true, targets: [web] }}\n  \
         - {{ name: tcp-443, enabled: false, targets: [web] }}\n"
    );
    std::fs::write(&file, text)?;
    let loaded = load(&file).map_err(|faults| anyhow::anyhow!("{faults}"))?;
    Ok(loaded.settings)
}

fn of_ground(settings: &Settings, ground: &Ground) -> Settings {
    let mut own = settings.clone();
    own.missing_counts_as_fail = ground.missing_counts;
    own.timers.max_self_check_retries = ground.self_check_retries;
    own.timers.max_assign_retries = ground.assign_retries;
    own.timers.max_parallel_cloud_calls = ground.parallel;
    own.timers.fip_settle_seconds = ground.settle;
    own.openstack.request_timeout = REQUEST;
    own.openstack.list_page_size = 4;
    own
}

/// A process that runs.
pub(crate) struct Life {
    runtime: Runtime,
    /// The use cases.
    pub(crate) app: App,
    /// Its tasks.
    pub(crate) tasks: Tasks,
    settings: Settings,
    context: Context,
}

impl Life {
    /// Starts a process on the database of that name.
    ///
    /// # Errors
    /// What keeps it from starting.
    pub(crate) fn begin(
        shared: &Shared,
        settings: &Settings,
        database: &str,
    ) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()?;
        let (clock, ground) = {
            let world = shared.world();
            (Arc::clone(&world.clock), world.ground)
        };
        let settings = of_ground(settings, &ground);
        let shutdown = CancellationToken::new();
        let tasks = Tasks::new(shutdown.clone());
        let context = Context {
            shutdown,
            tasks: tasks.clone(),
            environment: Arc::new(ProcessEnvironment),
        };
        let (time, weather): (Arc<dyn Clock>, Arc<dyn Weather>) =
            (Arc::clone(&clock) as _, Arc::new(shared.clone()));
        let opened = runtime.block_on(async {
            clock.life_begins();
            let at = Arc::clone(&time);
            let open = async move |rules, on_commit| {
                Store::open_inline(Path::new(database), at, rules, on_commit, weather)
                    .context("the database could not be opened")
            };
            let opened = go_on(&settings, &[Family::V4], time, open).await;
            if opened.is_err() {
                clock.life_ends(SECOND);
            }
            opened
        });
        Ok(Self {
            app: opened?,
            runtime,
            tasks,
            settings,
            context,
        })
    }

    /// Has it do what it does by itself.
    pub(crate) fn go(&self, shared: &Shared) {
        let cloud = Arc::new(SimCloud::new(shared.clone()));
        let gate = Arc::new(Gate::with_dice(dice));
        self.runtime.block_on(async {
            run_by_itself(&self.app, &self.settings, &self.context, cloud, gate);
        });
    }

    /// Does something in it.
    pub(crate) fn during<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Kills it: whatever is under way stops where it is.
    pub(crate) fn end(self, shared: &Shared, down_micros: i64) {
        let clock = Arc::clone(&shared.world().clock);
        self.runtime
            .block_on(async { clock.life_ends(down_micros) });
        drop(self.runtime);
        shared.world().in_flight.clear();
    }
}
