//! SIGTERM and SIGINT: the first asks for an orderly end, the second for an end at once.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Whoever may ask the process to end.
pub(crate) trait Asked {
    /// Waits for the next request; the name of the signal.
    async fn next(&mut self) -> &'static str;
}

/// The two signals, listened for from the moment this exists.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }
}

impl Asked for Signals {
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_signals_are_heard() {
        let mut signals = Signals::listen().unwrap();
        let own = std::process::id().to_string();
        for name in ["SIGTERM", "SIGINT"] {
            let mut kill = tokio::process::Command::new("kill");
            let sent = kill.args(["-s", name.trim_start_matches("SIG"), &own]);
            assert!(sent.status().await.unwrap().success());
            assert_eq!(signals.next().await, name);
        }
    }
}
