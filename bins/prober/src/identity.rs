//! Who answers on an address: its validator, which alone knows the nonce of the claim, or somebody
//! else.

use std::net::IpAddr;
use std::time::Duration;

use civ_checks::{Check, Code, Engine, Kind, Options, Outcome, Signature, Target, Verdict};
use civ_proto::prober::Identity;
use civ_proto::{NONCE_HEADER, VALIDATOR_HEADER};
use civ_types::Address;
use tokio::time::Instant;

/// Between two rounds: long enough for a responder that is just being told its nonce.
const PAUSE: Duration = Duration::from_millis(500);

/// What the question needs.
#[derive(Debug)]
pub(crate) struct Asking<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) address: Address,
    pub(crate) source: Option<IpAddr>,
    /// No round begins later than that, less a pause.
    pub(crate) patience: Duration,
}

impl Asking<'_> {
    /// Asks on each port of the responder until one proves who it is; again from the first port
    /// while there is time. What says most in the last round is the outcome; the error is a
    /// sentence.
    pub(crate) async fn who_answers(&self, identity: &Identity) -> Result<Outcome, String> {
        let began = Instant::now();
        loop {
            let mut best: Option<Outcome> = None;
            for port in &identity.ports {
                let outcome = self.engine.run_settled(&self.check(identity, *port)).await;
                if outcome.verdict.passed() {
                    return Ok(outcome);
                }
                best = Some(match best {
                    Some(before) if weight(&outcome) < weight(&before) => before,
                    _ => outcome,
                });
            }
            if self.patience < began.elapsed() + PAUSE {
                return best.ok_or_else(|| "the assignment names no port to ask".to_owned());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn check(&self, identity: &Identity, port: u16) -> Check {
        let signature = Signature {
            name: (VALIDATOR_HEADER, identity.validator_id.clone()),
            secret: (NONCE_HEADER, identity.nonce.0.clone()),
        };
        Check {
            kind: Kind::Http,
            target: Target::addr(self.address.ip(), port),
            source: self.source,
            family: self.address.family(),
            options: Options {
                signature: Some(signature),
                ..Options::default()
            },
        }
    }
}

/// How much an outcome that is no pass says: somebody else answered. Before a port on which nobody
/// did comes one that we could not ask, since that may be the one that answers.
const fn weight(outcome: &Outcome) -> u8 {
    match outcome.verdict {
        Verdict::Failed(Code::WrongHost) => 2,
        Verdict::Inconclusive(_) => 1,
        Verdict::Passed | Verdict::Failed(_) => 0,
    }
}
