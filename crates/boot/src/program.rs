//! A whole program from its command line to its exit code.
//!
//! Exit codes: 0 ended in order; 1 a fault at run time; 2 usage or configuration.

use std::ffi::OsString;
use std::fmt;
use std::future::Future;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};
use tokio_util::sync::CancellationToken;

use crate::chain::Chain;
use crate::cli::{Asked, Command, Extra, Line, version};
use crate::config::{Faults, Loaded};
use crate::logging::{self, say};
use crate::secrets::{Environment, ProcessEnvironment};
use crate::signals::{self, Signals};
use crate::tasks::Tasks;

/// Time for an orderly end. Whoever stops us counts 5 s; the rest is for leaving the runtime.
const GRACE: Duration = Duration::from_millis(4_500);

const EXIT_FAULT: u8 = 1;
const EXIT_USAGE: u8 = 2;

/// What distinguishes one binary from another.
#[derive(Debug, Clone, Copy)]
pub struct Program<S, F> {
    /// Name of the binary.
    pub name: &'static str,
    /// One line for `--help`.
    pub about: &'static str,
    /// Loads and checks the configuration; needs no environment variable.
    pub load: fn(&Path) -> Result<Loaded<S>, Faults>,
    /// Runs until [`Context::shutdown`] is cancelled, then ends in order.
    pub run: fn(S, Context) -> F,
    /// Subcommands of this binary alone.
    pub extra: &'static [Extra],
}

/// What a running program is given.
#[derive(Debug, Clone)]
pub struct Context {
    /// Cancelled by SIGTERM, SIGINT, or a task that failed: end within 4.5 s.
    pub shutdown: CancellationToken,
    /// Spawns tasks; they are waited for after `run` has returned.
    pub tasks: Tasks,
    /// Where secrets are read from.
    pub environment: Arc<dyn Environment>,
}

/// A fault of the configuration that only the start could find, such as a missing token: returned
/// by `run`, it makes the exit code 2 instead of 1.
#[derive(Debug)]
pub struct Refused(Box<dyn std::error::Error + Send + Sync>);

impl Refused {
    /// Wraps an error, or a sentence.
    pub fn new(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// Installs the TLS provider, reads the command line and does what it says.
pub fn main<S, F>(program: &Program<S, F>) -> ExitCode
where
    F: Future<Output = anyhow::Result<()>>,
{
    // Fails only if a provider is there already, and then there is one.
    drop(rustls::crypto::ring::default_provider().install_default());
    ExitCode::from(with_args(program, std::env::args_os()))
}

fn with_args<S, F>(program: &Program<S, F>, args: impl IntoIterator<Item = OsString>) -> u8
where
    F: Future<Output = anyhow::Result<()>>,
{
    let extra = program.extra.iter().map(|extra| (extra.command)());
    let whole = Line::command()
        .name(program.name)
        .about(program.about)
        .subcommands(extra);
    let line = whole.clone().try_get_matches_from(args);
    let line = line.and_then(|matches| match own(program.extra, matches) {
        Ok((extra, matches)) => Ok(Said::Extra(extra, matches)),
        Err(matches) => Line::from_arg_matches(&matches).map(|line| Said::Shared(line.command)),
    });
    match line {
        Ok(Said::Shared(Command::CheckConfig { file })) => check(program, &file),
        Ok(Said::Shared(Command::Run { config })) => start(program, &config),
        Ok(Said::Extra(extra, matches)) => (extra.run)(Asked {
            matches,
            whole,
            environment: Arc::new(ProcessEnvironment),
        }),
        Err(error) => {
            // Help and version go to standard output with 0, the rest to standard error with 2; a
            // closed pipe behind us is no fault of ours.
            drop(error.print());
            if error.use_stderr() { EXIT_USAGE } else { 0 }
        }
    }
}

/// What the command line says.
enum Said {
    /// A subcommand of all binaries.
    Shared(Command),
    /// One of this binary alone, and what stands behind its name.
    Extra(Extra, ArgMatches),
}

/// The subcommand of this binary alone that was named; otherwise what was said, as it was.
fn own(extras: &[Extra], mut matches: ArgMatches) -> Result<(Extra, ArgMatches), ArgMatches> {
    let named = |extra: &&Extra| {
        let command = (extra.command)();
        matches.subcommand_name() == Some(command.get_name())
    };
    let Some(extra) = extras.iter().find(named).copied() else {
        return Err(matches);
    };
    match matches.remove_subcommand() {
        Some((_name, behind)) => Ok((extra, behind)),
        None => Err(matches),
    }
}

fn check<S, F>(program: &Program<S, F>, file: &Path) -> u8 {
    match (program.load)(file) {
        Ok(loaded) => {
            for warning in &loaded.warnings {
                say(format_args!("warning: {warning}"));
            }
            say(format_args!("{}: no faults", file.display()));
            0
        }
        Err(faults) => {
            say(&faults);
            EXIT_USAGE
        }
    }
}

fn start<S, F>(program: &Program<S, F>, file: &Path) -> u8
where
    F: Future<Output = anyhow::Result<()>>,
{
    let environment: Arc<dyn Environment> = Arc::new(ProcessEnvironment);
    if let Err(error) = logging::init(environment.as_ref()) {
        say(Chain(&error));
        return EXIT_USAGE;
    }
    let loaded = match (program.load)(file) {
        Ok(loaded) => loaded,
        Err(faults) => {
            // As `check-config` prints them: one a line, for people.
            say(&faults);
            return EXIT_USAGE;
        }
    };
    tracing::info!(version = version(), config = %file.display(), "{} starts", program.name);
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("cannot start the runtime: {}", Chain(&error));
            return EXIT_FAULT;
        }
    };
    let code = runtime.block_on(async {
        match Signals::listen() {
            Ok(signals) => live(loaded.settings, program.run, environment, signals).await,
            Err(error) => {
                tracing::error!("cannot listen for signals: {}", Chain(&error));
                EXIT_FAULT
            }
        }
    });
    // A blocking call that hangs must not hold the process.
    runtime.shutdown_background();
    tracing::info!(code, "{} ended", program.name);
    code
}

/// Runs the program and watches for signals.
async fn live<S, F>(
    settings: S,
    run: fn(S, Context) -> F,
    environment: Arc<dyn Environment>,
    asked: impl signals::Asked,
) -> u8
where
    F: Future<Output = anyhow::Result<()>>,
{
    let shutdown = CancellationToken::new();
    let tasks = Tasks::new(shutdown.clone());
    let context = Context {
        shutdown: shutdown.clone(),
        tasks: tasks.clone(),
        environment,
    };
    let work = async {
        let code = exit_code(run(settings, context).await);
        shutdown.cancel();
        tasks.ended().await;
        code
    };
    tokio::select! {
        code = work => if tasks.fault().is_some() { code.max(EXIT_FAULT) } else { code },
        () = give_up(asked, &shutdown, &tasks) => EXIT_FAULT,
    }
}

/// Returns when the program has had its time, or was asked a second time to end.
async fn give_up(mut asked: impl signals::Asked, shutdown: &CancellationToken, tasks: &Tasks) {
    let mut signals = 0_u32;
    tokio::select! {
        name = asked.next() => {
            tracing::info!("{name}: ending in order");
            signals += 1;
            shutdown.cancel();
        }
        () = shutdown.cancelled() => {}
    }
    let over = tokio::time::sleep(GRACE);
    tokio::pin!(over);
    let why = loop {
        tokio::select! {
            name = asked.next() => {
                signals += 1;
                // The first one may come while a fault is ending the process anyway.
                if signals > 1 {
                    break format!("a second signal ({name})");
                }
            }
            () = &mut over => break format!("{} s are over", GRACE.as_secs_f32()),
        }
    };
    let left = left(&tasks.running());
    tracing::error!("{why}: ending at once; still running: {left}");
}

/// `poll (2), writer`; the main task alone has no name in the list.
fn left(running: &[(&'static str, usize)]) -> String {
    if running.is_empty() {
        return "the main task".to_owned();
    }
    let names = running.iter().map(|(name, count)| match count {
        1 => (*name).to_owned(),
        _ => format!("{name} ({count})"),
    });
    names.collect::<Vec<_>>().join(", ")
}

fn exit_code(result: anyhow::Result<()>) -> u8 {
    let Err(error) = result else {
        return 0;
    };
    tracing::error!("{}", Chain(error.as_ref()));
    let refused = error.is::<Refused>() || error.is::<Faults>();
    if refused { EXIT_USAGE } else { EXIT_FAULT }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn the_tasks_that_are_left_are_named() {
        assert_eq!(left(&[]), "the main task");
        assert_eq!(left(&[("poll", 2), ("writer", 1)]), "poll (2), writer");
    }

    #[test]
    fn a_refusal_is_a_fault_of_the_configuration() {
        assert_eq!(exit_code(Ok(())), 0);
        assert_eq!(exit_code(Err(Refused::new("no token").into())), 2);
        assert_eq!(exit_code(Err(anyhow::anyhow!("no luck"))), 1);
    }

    /// Asks to end as often as it holds messages, then never again.
    struct Scripted(mpsc::UnboundedReceiver<()>);

    impl signals::Asked for Scripted {
        async fn next(&mut self) -> &'static str {
            match self.0.recv().await {
                Some(()) => "SIGTERM",
                None => pending().await,
            }
        }
    }

    /// Lives one program that is asked to end `times` times; its exit code and its life's length.
    async fn lived<F>(times: usize, run: fn((), Context) -> F) -> (u8, Duration)
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        let (ask, asked) = mpsc::unbounded_channel();
        for _ in 0..times {
            ask.send(()).unwrap();
        }
        let begin = tokio::time::Instant::now();
        let environment = Arc::new(ProcessEnvironment);
        let code = live((), run, environment, Scripted(asked)).await;
        (code, begin.elapsed())
    }

    async fn orderly(_settings: (), context: Context) -> anyhow::Result<()> {
        let stop = context.shutdown.clone();
        let task = async move { stop.cancelled().await };
        context.tasks.spawn_essential("loop", task);
        context.shutdown.cancelled().await;
        Ok(())
    }

    async fn deaf(_settings: (), context: Context) -> anyhow::Result<()> {
        context.tasks.spawn("deaf", pending());
        Ok(())
    }

    async fn panicking(_settings: (), context: Context) -> anyhow::Result<()> {
        context.tasks.spawn("writer", async { panic!("no ink") });
        context.shutdown.cancelled().await;
        Ok(())
    }

    async fn failing(_settings: (), _context: Context) -> anyhow::Result<()> {
        anyhow::bail!("no luck")
    }

    #[tokio::test(start_paused = true)]
    async fn a_signal_ends_everything_in_order() {
        assert_eq!(lived(1, orderly).await, (0, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_end_is_left_behind_within_5_s() {
        let (code, after) = lived(1, deaf).await;
        assert_eq!(code, EXIT_FAULT);
        assert!(
            after >= GRACE && after < Duration::from_secs(5),
            "{after:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_ends_at_once() {
        let (code, after) = lived(2, deaf).await;
        assert_eq!((code, after), (EXIT_FAULT, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_in_a_task_is_a_fault_of_the_program() {
        assert_eq!(lived(0, panicking).await, (EXIT_FAULT, Duration::ZERO));
        assert_eq!(lived(0, failing).await, (EXIT_FAULT, Duration::ZERO));
    }

    fn refusing(_path: &Path) -> Result<Loaded<()>, Faults> {
        crate::config::parse("x.yaml", "a: 1", |(): (), _report| Some(()))
    }

    #[test]
    fn usage_and_configuration_are_2_and_help_is_0() {
        let program = Program {
            name: "prober",
            about: "checks",
            load: refusing,
            run: orderly,
            extra: &[Extra {
                command: || clap::Command::new("count").arg(clap::Arg::new("n").required(true)),
                run: |asked| {
                    let n = asked.matches.get_one::<String>("n").unwrap();
                    assert_eq!(asked.whole.get_name(), "prober");
                    n.parse().unwrap()
                },
            }],
        };
        let code = |args: &[&str]| {
            let args = std::iter::once("prober").chain(args.iter().copied());
            with_args(&program, args.map(OsString::from))
        };
        assert_eq!(code(&["--help"]), 0);
        assert_eq!(code(&["--version"]), 0);
        assert_eq!(code(&[]), EXIT_USAGE);
        assert_eq!(code(&["run"]), EXIT_USAGE);
        assert_eq!(code(&["walk"]), EXIT_USAGE);
        assert_eq!(code(&["check-config", "x.yaml"]), EXIT_USAGE);
        assert_eq!(code(&["count", "7"]), 7);
        assert_eq!(code(&["count"]), EXIT_USAGE);
    }
}
