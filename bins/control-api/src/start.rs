//! From settings to a running service.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use anyhow::Context as _;
use civ_boot::{Context, Refused};
use civ_cloud::{Cloud, OpenStack};
use civ_crash::step;
use civ_orch::attempt::Policy;
use civ_store::seed::Seed;
use civ_store::{OnCommit, OpenError, Rules, Store, StoreError};
use civ_store::{notifications, queue, runtime, seed, sites, validators};
use civ_types::{Clock, EvenClock, Family};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::{App, BackupDesk, Hub, Inner, Presence, ScanDesk, Signs};
use crate::cloud;
use crate::config::{Auth, Settings, Timers};
use crate::http::{OpenLimit, Proxies, Tls, Tokens, Web, router, serve};
use crate::metrics::Metrics;
use crate::notify;
use crate::runner::{Gate, Runner};

/// How often clients that were not seen for a while are forgotten.
const FORGET: Duration = Duration::from_secs(60);

/// Time limits of one association, in request times: see the cloud worker. One more than the
/// worker takes, so that its own limit is the one that strikes.
const ANSWER_REQUESTS: u32 = 4;

/// A service that was started.
#[derive(Debug)]
pub struct Running {
    /// Where it listens.
    pub addr: SocketAddr,
    /// The use cases, for tests that look inside.
    pub app: App,
}

/// Runs control-api until it is told to end.
///
/// # Errors
/// What keeps it from starting: tokens, the database, the cloud's settings, the port.
pub async fn run(settings: Settings, context: Context) -> anyhow::Result<()> {
    civ_crash::arm!(|name| context.environment.get(name).ok().flatten()).map_err(Refused::new)?;
    // Before the cloud's variables: whoever sets up by hand meets the first gap first.
    let tokens = tokens(&settings, &context)?;
    let (config, source) = cloud::config(&settings.openstack, context.environment.as_ref())?;
    tracing::info!(%source, "the cloud's login");
    let budget = cloud::budget(&settings.openstack);
    let cloud = OpenStack::within(config, budget).map_err(Refused::new)?;
    let cloud = Arc::new(cloud.marking(settings.openstack.mark_description));
    let clock = Arc::new(EvenClock::start());
    let running = start_with(settings, &context, cloud, tokens, clock).await?;
    context.shutdown.cancelled().await;
    context.tasks.ended().await;
    // Nobody writes any more: the log is folded into the database file.
    running.app.close_database().await;
    Ok(())
}

/// Starts everything on a cloud that is given.
///
/// # Errors
/// What keeps it from starting: tokens, the database, the port.
pub async fn start(
    settings: Settings,
    context: &Context,
    cloud: Arc<dyn Cloud>,
) -> anyhow::Result<Running> {
    start_at(settings, context, cloud, Arc::new(EvenClock::start())).await
}

/// Starts everything on a cloud and a clock that are given.
///
/// # Errors
/// As [`start`].
pub async fn start_at(
    settings: Settings,
    context: &Context,
    cloud: Arc<dyn Cloud>,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Running> {
    let tokens = tokens(&settings, context)?;
    start_with(settings, context, cloud, tokens, clock).await
}

async fn start_with(
    settings: Settings,
    context: &Context,
    cloud: Arc<dyn Cloud>,
    tokens: Tokens,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Running> {
    let receivers = notify::keys(&settings.notifications, context)?;
    let tls = settings.server.tls.clone().map(Tls::load).transpose();
    let tls = tls.map_err(Refused::new)?.map(Arc::new);
    let gate = Arc::new(Gate::default());
    let app = open(&settings, cloud.as_ref(), clock).await?;
    let listen = settings.server.listen_addr;
    let listener = TcpListener::bind(listen).await.with_context(|| {
        format!("cannot listen on {listen}: set server.listen_addr to a free address and port")
    })?;
    let addr = listener
        .local_addr()
        .context("the listening address is not known")?;
    let web = Web {
        app: app.clone(),
        tokens: Arc::new(tokens),
        gate: Arc::clone(&gate),
        proxies: Arc::new(Proxies(settings.server.trusted_proxies.clone())),
        open_limit: Arc::new(OpenLimit::per_second(
            settings.server.open_requests_per_second,
        )),
        body_limit: settings.server.body_limit_bytes,
        request_timeout: settings.server.request_timeout,
        dashboard: settings.dashboard_enabled,
        shutdown: context.shutdown.clone(),
    };
    run_by_itself(&app, &settings, context, cloud, gate);
    notify::start(&app, receivers, context)?;
    watch(&web, &app, context);
    if let Some(tls) = &tls {
        follow_certificates(Arc::clone(tls), context)?;
    }
    let serving = serve(listener, tls, router(web), context.tasks.clone());
    context.tasks.spawn_essential("http", serving);
    tracing::info!(%addr, "control-api listens");
    Ok(Running { addr, app })
}

/// Starts what control-api does by itself, without HTTP.
pub fn run_by_itself(
    app: &App,
    settings: &Settings,
    context: &Context,
    cloud: Arc<dyn Cloud>,
    gate: Arc<Gate>,
) {
    let runner = Runner {
        app: app.clone(),
        cloud,
        gate,
        stalls: Arc::default(),
        request_timeout: settings.openstack.request_timeout,
        page_size: settings.openstack.list_page_size,
        page_retries: settings.openstack.page_retries,
        tasks: context.tasks.clone(),
        shutdown: context.shutdown.clone(),
    };
    runner.start();
}

/// Reads the certificates again whenever SIGHUP says that they are new.
fn follow_certificates(tls: Arc<Tls>, context: &Context) -> anyhow::Result<()> {
    let mut asked = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    let shutdown = context.shutdown.clone();
    context.tasks.spawn_essential("certificates", async move {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                _ = asked.recv() => {}
            }
            match tls.reload() {
                Ok(()) => tracing::info!("SIGHUP: new connections get the certificate of now"),
                Err(error) => {
                    let error = anyhow::Error::from(error);
                    tracing::error!("SIGHUP: the certificate in use stays: {error:#}");
                }
            }
        }
    });
    Ok(())
}

/// Small tasks beside the runner: forgetting idle clients, and ending with the database.
fn watch(web: &Web, app: &App, context: &Context) {
    let (limit, shutdown) = (Arc::clone(&web.open_limit), context.shutdown.clone());
    context
        .tasks
        .spawn_essential("forget-idle-clients", async move {
            loop {
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(FORGET) => limit.forget_idle(),
                }
            }
        });
    let (app, shutdown) = (app.clone(), context.shutdown.clone());
    context.tasks.spawn_essential("database", async move {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = app.database_closed() => tracing::error!("the writing thread has ended"),
        }
    });
}

fn tokens(settings: &Settings, context: &Context) -> anyhow::Result<Tokens> {
    let read = settings
        .auth
        .read_tokens(context.environment.as_ref())
        .map_err(Refused::new)?;
    for warning in &read.warnings {
        tracing::warn!("{warning}");
    }
    Ok(Tokens {
        admin: read.admin,
        agent: read.agent,
        protect_open_methods: settings.auth.protect_open_methods,
        own: read.own,
        wants_certificates: settings
            .server
            .tls
            .as_ref()
            .is_some_and(|tls| tls.client_ca_file.is_some()),
    })
}

pub(crate) fn rules(settings: &Settings) -> Rules {
    let timers = &settings.timers;
    let answer = settings.openstack.request_timeout * ANSWER_REQUESTS;
    Rules {
        policy: Policy {
            answer_secs: u32::try_from(answer.as_secs()).unwrap_or(u32::MAX).max(1),
            lease_secs: timers.lease_ttl_seconds,
            window_secs: timers.checking_window_seconds,
            release_grace_secs: timers.release_grace_seconds,
            assign_retries_max: timers.max_assign_retries,
            self_check_retries_max: timers.max_self_check_retries,
        },
        missing_counts: settings.missing_counts_as_fail,
    }
}

fn seed_of(settings: &Settings) -> Seed {
    let from = &settings.seed;
    Seed {
        validators: from
            .validators
            .iter()
            .map(|one| (one.validator_id.clone(), one.os_port_id.clone()))
            .collect(),
        sites: from.sites.clone(),
        targets: from
            .targets
            .iter()
            .map(|one| (one.name.clone(), one.targets.clone()))
            .collect(),
        check_types: from
            .check_types
            .iter()
            .map(|one| (one.name.clone(), one.enabled, one.targets.clone()))
            .collect(),
        fip_settle_seconds: settings.timers.fip_settle_seconds,
        inbound_ports: from.inbound.ports.clone(),
        inbound_icmp: from.inbound.icmp,
        inbound_closed_ports: from.inbound.closed_ports.clone(),
    }
}

/// Makes the folder of the database if need be.
pub(crate) fn make_folder(path: &Path) -> anyhow::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let Some(folder) = folder else {
        return Ok(());
    };
    std::fs::create_dir_all(folder).with_context(|| {
        format!(
            "cannot make the folder {} of the database",
            folder.display()
        )
    })
}

/// Opens the database and goes on where the last process was.
async fn open(
    settings: &Settings,
    cloud: &dyn Cloud,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<App> {
    let path = settings.database_path.clone();
    make_folder(&path)?;
    let at = path.clone();
    let time = Arc::clone(&clock);
    let open = move |rules, on_commit| Store::open(&at, time, rules, on_commit);
    let opened = tokio::task::spawn_blocking;
    let app = go_on(
        settings,
        cloud.families(),
        clock,
        async move |rules, on_commit| {
            opened(move || open(rules, on_commit))
                .await
                .context("the database could not be opened")?
                .map_err(newer_is_refused)
        },
    );
    let app = app.await?;
    tracing::info!(database = %path.display(), "the database is open");
    Ok(app)
}

/// Passes on what each commit has changed.
fn on_commit(hub: &Arc<Hub>, presence: &Arc<Presence>) -> OnCommit {
    let (wake, signs) = (Arc::clone(hub), Arc::clone(presence));
    Box::new(move |hints: Vec<civ_store::Hint>| {
        for hint in hints {
            match &hint {
                civ_store::Hint::Silenced(id) => signs.silenced(id),
                civ_store::Hint::ValidatorReset(id) => signs.forget_validator(id),
                civ_store::Hint::SiteReset(id) => signs.forget_site(id),
                civ_store::Hint::Validator(_)
                | civ_store::Hint::Sites
                | civ_store::Hint::Outbox
                | civ_store::Hint::Schedule
                | civ_store::Hint::Retention
                | civ_store::Hint::Notifications
                | civ_store::Hint::Events => {}
            }
            wake.hint(&hint);
        }
    })
}

/// The use cases on a database that `open` opens under these rules, gone on with where the last
/// process was.
///
/// # Errors
/// As `open` fails, and what is stored that does not go with the settings.
pub async fn go_on(
    settings: &Settings,
    families: &[Family],
    clock: Arc<dyn Clock>,
    open: impl AsyncFnOnce(Rules, OnCommit) -> anyhow::Result<Store>,
) -> anyhow::Result<App> {
    let hub = Arc::new(Hub::default());
    let presence = Arc::new(Presence::default());
    let store = open(rules(settings), on_commit(&hub, &presence)).await?;
    resume(&store, settings, &presence).await?;
    let now = clock.now().as_micros();
    Ok(App::new(Inner {
        store,
        clock,
        hub,
        presence,
        scans: Arc::new(ScanDesk::default()),
        timers: settings.timers,
        families: families.to_vec(),
        backups: settings
            .backup
            .clone()
            .map(|backup| BackupDesk::new(settings.database_path.clone(), backup)),
        last_round: AtomicI64::new(now),
        signs: Signs::default(),
        metrics: Metrics::default(),
    }))
}

/// A newer database is a matter of configuration: which program is started on it.
fn newer_is_refused(error: OpenError) -> anyhow::Error {
    match error {
        refused @ (OpenError::Newer { .. } | OpenError::InUse { .. }) => {
            Refused::new(refused).into()
        }
        other => other.into(),
    }
}

/// Moves deadlines by the time that the process was down, fills tables that are empty, adds what
/// YAML lists, and takes over the signs of life.
async fn resume(store: &Store, settings: &Settings, presence: &Presence) -> anyhow::Result<()> {
    let seed = seed_of(settings);
    let addresses = settings.seed.ip_addresses.clone();
    let timers = settings.timers;
    let receivers = notify::rows(&settings.notifications);
    let resumed = store.write(move |tx| -> Result<_, NotResumed> {
        let down = runtime::resume(tx)?;
        // Before the first event, so that none is missed.
        let gone = notifications::configure(tx, &receivers)?;
        seed::apply(tx, &seed)?;
        check_settle(civ_store::settings::settle_seconds(tx)?, &timers)?;
        queue::add_missing(tx, &addresses)?;
        Ok((down, gone))
    });
    let (down, gone) = step!(Resume, resumed.await).map_err(|error| match error {
        NotResumed::Store(error) => anyhow::Error::from(error),
        settle @ NotResumed::Settle(_) => Refused::new(settle).into(),
    })?;
    notify::tell_gone(gone);
    if down > Duration::ZERO {
        tracing::info!(seconds = down.as_secs_f64(), "going on after a pause");
    }
    let (agents, probers) = store
        .read(|conn| -> Result<_, StoreError> { Ok((validators::list(conn)?, sites::list(conn)?)) })
        .await?;
    let ids = agents.iter().map(|one| one.id.as_str());
    let ids = ids.chain(probers.iter().map(|one| one.id.as_str()));
    owners(&settings.auth, &ids.collect())?;
    let silent = agents.iter().filter(|one| one.silenced_at.is_some());
    silent.for_each(|one| presence.silenced(&one.id));
    presence.restore(
        agents
            .into_iter()
            .filter_map(|one| Some((one.id, one.last_seen_at?)))
            .collect(),
        probers
            .into_iter()
            .filter_map(|one| Some((one.id, one.last_seen_at?)))
            .collect(),
    );
    Ok(())
}

/// Mostly a mistyped id: whoever is meant would go on with the shared token.
#[derive(Debug, thiserror::Error)]
#[error(
    "auth.per_agent_tokens.{0}: there is no validator and no site with this id: add it first, or \
     correct or remove the line"
)]
struct NoOwner(String);

/// Whether each token of its own has somebody whose it is.
fn owners(auth: &Auth, known: &BTreeSet<&str>) -> anyhow::Result<()> {
    for id in auth.per_agent_tokens.keys() {
        if known.contains(id.as_str()) {
            continue;
        }
        let missing = NoOwner(id.clone());
        if auth.required {
            return Err(Refused::new(missing).into());
        }
        tracing::warn!("{missing}");
    }
    Ok(())
}

#[derive(Debug, thiserror::Error)]
enum NotResumed {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "the stored fip_settle_seconds ({0}) and orchestrator.self_check_timeout_seconds together \
         must stay below orchestrator.lease_ttl_seconds: raise the lease in the YAML file"
    )]
    Settle(u32),
}

fn check_settle(settle: u32, timers: &Timers) -> Result<(), NotResumed> {
    let needed = u64::from(settle) + u64::from(timers.self_check_timeout_seconds);
    if u64::from(timers.lease_ttl_seconds) <= needed {
        return Err(NotResumed::Settle(settle));
    }
    Ok(())
}
