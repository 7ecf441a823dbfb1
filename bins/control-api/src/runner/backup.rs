//! Looks whether a backup is due. It is made beside everything else, which it holds up nowhere.

use std::time::Duration;

use super::Runner;

/// How often it looks at the clock, which may be set.
const LOOK: Duration = Duration::from_secs(1);

pub(super) async fn run(runner: Runner) {
    while !runner.sleep(LOOK).await {
        runner.app.back_up_if_due(&runner.shutdown).await;
    }
}
