//! Owns what flows through an address while a scenario watches: a ping and a connection from
//! outside, and a connection from inside.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use civ_types::Utc;

use crate::procs::Proc;
use crate::stage::Stage;
use crate::stage::netns::{Rights, WEB};
use crate::stage::plan::Place;
use crate::waiting::until;

/// What may still be under way when the cloud has answered, and the reading of our own clock.
const SLACK: Duration = Duration::from_millis(100);
/// How long after the release nothing may come.
const WATCH: Duration = Duration::from_millis(1_500);

/// Flows between site 1, site 2, VM 1 and a web target.
#[derive(Debug)]
pub(crate) struct Flows(Vec<Proc>);

impl Flows {
    /// Starts them through `floating`, which must lead to VM 1, and waits until each has answers.
    /// `ourselves` is this program.
    ///
    /// # Errors
    ///
    /// When a program does not start or a flow has no answers.
    pub(crate) async fn start(
        stage: &dyn Stage,
        ourselves: &Path,
        floating: Ipv4Addr,
        logs: &Path,
    ) -> Result<Self> {
        let ourselves = stage.visible(ourselves);
        let web: Ipv4Addr = WEB[0].parse()?;
        let hold = |place, to: Ipv4Addr| {
            let mut command = stage.command(place, Rights::Service, &ourselves);
            command
                .arg("hold")
                .arg(SocketAddr::from((to, 80)).to_string());
            command
        };
        let mut ping = stage.command(Place::Site(1), Rights::Service, Path::new("ping"));
        // Its file capabilities make the kernel forget that it should die with us: it ends itself.
        ping.args(["-D", "-i", "0.2", "-w", "60"])
            .arg(floating.to_string());
        let flows = vec![
            Proc::spawn("ping-in", &mut ping, logs)?,
            Proc::spawn("tcp-in", &mut hold(Place::Site(2), floating), logs)?,
            Proc::spawn("tcp-out", &mut hold(Place::Vm(1), web), logs)?,
        ];
        for flow in &flows {
            until(&format!("{} has answers", flow.name()), async || {
                answers(flow.log()).is_ok_and(|times| times.len() >= 3)
            })
            .await?;
        }
        Ok(Self(flows))
    }

    /// Watches for a while, demands that no answer came after `released`, and says how many came
    /// before.
    ///
    /// # Errors
    ///
    /// Names the flow that went on.
    pub(crate) async fn demand_cut(self, released: Utc) -> Result<String> {
        tokio::time::sleep(WATCH).await;
        let mut told = Vec::new();
        for flow in self.0 {
            let times = answers(flow.log())?;
            let last = times.last().context("answers that were there are gone")?;
            if last.since(released) > SLACK {
                bail!(
                    "{} got an answer at {last}, released at {released}",
                    flow.name()
                );
            }
            told.push(format!(
                "{}: {} answers, then none",
                flow.name(),
                times.len()
            ));
            flow.kill().await?;
        }
        Ok(told.join("\n"))
    }
}

/// The times of all answers in a flow's output.
fn answers(log: &Path) -> Result<Vec<Utc>> {
    let text = fs::read_to_string(log)?;
    text.lines().filter_map(answer).collect()
}

/// `[1755766800.123456] 64 bytes from …` of ping, `answer TIME` of our own, which is the time of
/// the question.
fn answer(line: &str) -> Option<Result<Utc>> {
    if let Some(time) = line.strip_prefix("answer ") {
        return Some(Utc::parse(time).context("no time"));
    }
    let (stamp, rest) = line.strip_prefix('[')?.split_once("] ")?;
    rest.contains("bytes from").then(|| {
        let (seconds, fraction) = stamp.split_once('.').context("no fraction")?;
        let micros: i64 = format!("{seconds}{fraction}").parse()?;
        Ok(Utc::from_micros(micros))
    })
}
