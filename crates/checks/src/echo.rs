//! Which address do we leave through: one request to an IP-echo service.

use std::net::IpAddr;
use std::time::Duration;

use civ_types::Family;

use crate::{Code, Engine};

/// No usable answer of an IP-echo service. Never "the wrong address": that is for the caller to
/// judge, who knows which one it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EchoError {
    /// Not an http or https URL.
    #[error("the IP-echo URL {0:?} is not usable: {1}")]
    Url(String, String),
    /// No connection or no HTTP answer; the code as for an https check.
    #[error("the IP-echo service did not answer: {code} {detail}")]
    Unanswered {
        /// Stable code.
        code: Code,
        /// What was seen.
        detail: String,
    },
    /// Status other than 200; redirects are not followed.
    #[error("the IP-echo service answered with status {status}: {body:?}")]
    Status {
        /// HTTP status.
        status: u16,
        /// Begin of the body, printable.
        body: String,
    },
    /// The body is not exactly one address of the family asked for.
    #[error("the IP-echo service answered with something else than one address: {0:?}")]
    NotAnAddress(String),
}

impl Engine {
    /// Asks the IP-echo service at `url` (http or https), over a fresh socket bound to `source`,
    /// in `family` only, which address it sees. No redirects, no kept-alive connection, at most
    /// 256 bytes of body: one address, or a JSON object with a member `ip`.
    ///
    /// Takes no slot, since a self-check must not wait behind other checks.
    ///
    /// # Errors
    /// [`EchoError`]: none of its variants says anything about the address under test.
    pub async fn echo(
        &self,
        url: &str,
        source: Option<IpAddr>,
        family: Family,
        timeout: Duration,
    ) -> Result<IpAddr, EchoError> {
        crate::http::echo(self.trust(), url, source, family, timeout).await
    }
}
