//! Cuts the history to a new depth, in small steps, so that reports are not kept waiting.

use std::time::Duration;

use civ_crash::step;
use civ_store::retention;

use super::{Runner, complain};

/// Pause between two steps: what waits for the writing thread comes first.
const STEP_PAUSE: Duration = Duration::from_millis(10);

/// Pause after a fault of the database.
const FAULT_PAUSE: Duration = Duration::from_secs(1);

pub(super) async fn run(runner: Runner) {
    loop {
        let cut = runner.app.write(|tx| retention::step(tx));
        let pause = match step!(Retention, cut.await) {
            Ok(true) => STEP_PAUSE,
            Ok(false) => {
                tokio::select! {
                    biased;
                    () = runner.shutdown.cancelled() => return,
                    () = runner.app.hub().retention.notified() => continue,
                }
            }
            Err(error) => {
                complain("the history could not be cut", &error);
                FAULT_PAUSE
            }
        };
        if runner.sleep(pause).await {
            return;
        }
    }
}
