//! The site: follows the list of its seat and keeps one task for each pass under way.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use civ_boot::tasks::Tasks;
use civ_checks::Engine;
use civ_link::{Claim, Ended, Prober, Seat};
use civ_types::Clock;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::pass::Pass;
use crate::schedule::{Action, Plan, Schedule};

/// This process.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) seat: Arc<Seat<Prober>>,
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) bind_address: Option<IpAddr>,
    /// How long one check may take.
    pub(crate) patience: Duration,
    pub(crate) tasks: Tasks,
}

/// The end of a pass. The channel holds at most one for each pass, so it needs no bound.
type Ends = mpsc::UnboundedSender<(Plan, Ended)>;

impl Site {
    /// Probes until `stop`. Passes under way end by themselves then, within two seconds.
    pub(crate) async fn run(&self, stop: &CancellationToken) {
        tokio::join!(self.seat.run(stop), self.follow(stop));
    }

    async fn follow(&self, stop: &CancellationToken) {
        let mut assigned = self.seat.assigned();
        let mut schedule = Schedule::default();
        let mut passes: HashMap<Claim, CancellationToken> = HashMap::new();
        let (ends, mut ended) = mpsc::unbounded_channel();
        let mut under_way: usize = 0;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                Ok(()) = assigned.changed() => {
                    let list = assigned.borrow_and_update().clone();
                    for action in schedule.take(&list) {
                        under_way += usize::from(matches!(action, Action::Begin(_)));
                        self.carry_out(action, &mut passes, stop, &ends);
                    }
                }
                Some((plan, how)) = ended.recv() => {
                    under_way -= 1;
                    let (ip, fence) = (plan.ip_address, plan.claim.fence);
                    tracing::info!(ip, fence, ?how, "pass ended");
                }
            }
            let word = if under_way == 0 { "idle" } else { "checking" };
            self.seat.set_local_state(word);
        }
    }

    fn carry_out(
        &self,
        action: Action,
        passes: &mut HashMap<Claim, CancellationToken>,
        stop: &CancellationToken,
        ends: &Ends,
    ) {
        match action {
            Action::BreakOff(claim) => {
                if let Some(over) = passes.remove(&claim) {
                    over.cancel();
                }
            }
            Action::Begin(plan) => {
                let over = stop.child_token();
                passes.insert(plan.claim, over.clone());
                self.begin(plan, over, ends.clone());
            }
        }
    }

    fn begin(&self, plan: Plan, over: CancellationToken, ends: Ends) {
        tracing::info!(
            ip = plan.ip_address,
            fence = plan.claim.fence,
            "pass begins"
        );
        let seat = Arc::clone(&self.seat);
        let pass = Pass {
            engine: self.engine.clone(),
            clock: Arc::clone(&self.clock),
            source: self.bind_address,
            patience: self.patience,
            plan,
        };
        self.tasks.spawn("pass", async move {
            let ended = seat.work(&over, |desk| pass.run(desk)).await;
            // Nobody listens after the stop.
            drop(ends.send((pass.plan, ended)));
        });
    }
}
