//! Writes into the history when the cloud goes away, and when it is back.

use std::time::Duration;

use civ_crash::step;
use civ_store::{WriteTx, runtime};

use super::{Runner, complain};

/// An outage that is over sooner than this is a hiccup: the log has it, the history does not.
const HICCUP: Duration = Duration::from_secs(3);

pub(super) async fn run(runner: Runner) {
    let mut outages = runner.gate.outages();
    loop {
        let why = tokio::select! {
            biased;
            () = runner.shutdown.cancelled() => return,
            change = outages.wait_for(Option::is_some) => match change {
                Ok(why) => why.clone().unwrap_or_default(),
                // The gate is gone, and so is the process.
                Err(_closed) => return,
            },
        };
        let began = runner.app.now();
        tokio::select! {
            biased;
            () = runner.shutdown.cancelled() => return,
            _over = outages.wait_for(Option::is_none) => continue,
            () = tokio::time::sleep(HICCUP) => {}
        }
        write(&runner, Some(why), Duration::ZERO).await;
        tokio::select! {
            biased;
            () = runner.shutdown.cancelled() => return,
            _over = outages.wait_for(Option::is_none) => {}
        }
        let lasted = runner.app.now().since(began);
        write(&runner, None, lasted).await;
    }
}

async fn write(runner: &Runner, why: Option<String>, lasted: Duration) {
    let job = move |tx: &mut WriteTx<'_>| match &why {
        Some(why) => runtime::cloud_unavailable(tx, why),
        None => runtime::cloud_available(tx, lasted),
    };
    if let Err(error) = step!(Outage, runner.app.write(job).await) {
        complain("an outage of the cloud could not be written down", &error);
    }
}
