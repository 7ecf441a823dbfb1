//! The way into the namespaces: a test runs itself again inside, after a script that builds them.

use std::future::Future;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;
use std::time::Duration;

use civ_checks::{Check, Engine, Family, Kind, Limits, Outcome, Policy, Target, Trust};
use rcgen::{CertificateParams, KeyPair};

/// Set for the run inside.
const INSIDE: &str = "CIV_TEST_INSIDE";
/// What an ordinary user's PATH lacks.
const TOOLS_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What must work before a test can be tried.
const TRIAL: &str = "set -e; mount -t tmpfs tmpfs /run; ip netns add trial; nft add table ip trial";
/// The beginning of every script.
const BEGIN: &str = "set -e; mount -t tmpfs tmpfs /run; ip link set lo up; \
    echo 0 > /proc/sys/net/ipv4/icmp_ratelimit; echo 0 > /proc/sys/net/ipv6/icmp/ratelimit";

/// What the process inside may do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rights {
    /// Ping sockets, nothing else.
    Datagram,
    /// Raw sockets, no ping sockets.
    Raw,
    /// Raw sockets and a receive buffer of any size.
    Admin,
    /// Neither.
    None,
}

impl Rights {
    /// The end of the script: it becomes the test.
    fn exec(self) -> String {
        let range = "echo \"$(id -g) $(id -g)\" > /proc/sys/net/ipv4/ping_group_range; ";
        let (before, kept) = match self {
            Self::Datagram => (range, "-all"),
            Self::Raw => ("", "-all,+net_raw"),
            Self::None => ("", "-all"),
            Self::Admin => return "exec \"$0\" \"$@\"".to_owned(),
        };
        format!(
            "{before}exec setpriv --bounding-set={kept} --inh-caps={kept} --ambient-caps={kept} \
             -- \"$0\" \"$@\""
        )
    }
}

fn unshare() -> Command {
    let root = std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    let arguments: &[&str] = if root {
        &["-nm"]
    } else {
        &["-U", "-c", "--keep-caps", "-nm"]
    };
    let mut command = Command::new("unshare");
    command.args(arguments).env("PATH", TOOLS_PATH);
    command
}

/// Why there are no namespaces here, if so.
fn obstacle() -> Option<String> {
    match unshare().args(["sh", "-c", TRIAL]).output() {
        Err(error) => Some(format!("unshare does not start: {error}")),
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Runs `test` inside namespaces that `script` has built, with those rights. `name` is the test's
/// own, with its module.
pub(crate) fn inside<F: Future<Output = ()>>(
    name: &str,
    rights: Rights,
    script: &str,
    test: impl FnOnce() -> F,
) {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        return runtime.block_on(test());
    }
    if let Some(why) = obstacle() {
        #[expect(clippy::print_stdout, reason = "a test that does nothing must say so")]
        let () = println!("{name} is not run: no namespaces here: {}", why.trim());
        return;
    }
    let whole = format!("{BEGIN}\n{script}\n{}", rights.exec());
    let output = unshare()
        // Nothing here takes that long; what hangs must not hang for ever.
        .args(["timeout", "60", "sh", "-c", &whole])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    let ran = said.contains("1 passed");
    assert!(output.status.success() && ran, "{said}\n{complained}");
}

/// An engine with this total for each check.
pub(crate) fn engine(timeout: Duration) -> Engine {
    let limits = Limits {
        max_concurrent: 64,
        timeout,
        ..Limits::default()
    };
    let key = KeyPair::generate().unwrap();
    let root = CertificateParams::new(["test".to_owned()]).unwrap();
    let root = root.self_signed(&key).unwrap();
    let trust = Trust::of(vec![root.der().clone()]).unwrap();
    Engine::new(limits, trust, Policy::anywhere()).unwrap()
}

pub(crate) fn check(kind: Kind, target: &str) -> Check {
    let target = Target::parse(kind, target).unwrap();
    let family = match target.ip() {
        Some(IpAddr::V6(_)) => Family::V6,
        _ => Family::V4,
    };
    Check {
        kind,
        target,
        source: None,
        family,
        options: civ_checks::Options::default(),
    }
}

pub(crate) async fn ping(engine: &Engine, target: &str) -> Outcome {
    engine.run(&check(Kind::Icmp, target)).await
}
