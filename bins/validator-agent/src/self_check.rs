//! The self-check: does our traffic leave through the address? Judged by an IP-echo service
//! outside the cloud, asked until it says so or the time is up.
//!
//! The data plane may come later than the cloud's answer, so a wrong address or silence is no
//! verdict while there is time. Knows nothing of claims and reports.

use std::future::Future;
use std::net::IpAddr;
use std::time::Duration;

use civ_types::Address;
use tokio::time::Instant;
use url::Url;

/// The pauses between rounds grow from this …
const PAUSE_FIRST: Duration = Duration::from_millis(250);
/// … to this.
const PAUSE_LAST: Duration = Duration::from_secs(1);
/// One service may use this part of the budget, so that a silent one leaves time for the others.
const TRY_PARTS: u32 = 4;
/// But never less than it takes to repeat one lost SYN (RFC 6298: 1 s).
const TRY_MIN: Duration = Duration::from_millis(2500);

/// What the self-check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Traffic leaves through the address.
    pub(crate) success: bool,
    /// What the last service that gave an address saw.
    pub(crate) detected: Option<IpAddr>,
    /// `matched …`, `mismatch …` or `echo_unavailable: …`.
    pub(crate) detail: String,
}

/// Asks the services in order, round after round, until one of them sees `wanted` or `budget` is
/// over. `echo` asks one service within a time.
pub(crate) async fn self_check<E, F>(
    wanted: Address,
    urls: &[Url],
    budget: Duration,
    echo: impl Fn(Url, Duration) -> F,
) -> Found
where
    E: std::fmt::Display,
    F: Future<Output = Result<IpAddr, E>>,
{
    let end = Instant::now() + budget;
    let longest_try = (budget / TRY_PARTS).max(TRY_MIN);
    let mut found = Found {
        success: false,
        detected: None,
        detail: "echo_unavailable: no service was asked".to_owned(),
    };
    let mut pause = PAUSE_FIRST;
    loop {
        for url in urls {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return found;
            }
            let seen = echo(url.clone(), left.min(longest_try)).await;
            found = found.after(wanted, url, seen);
            if found.success {
                return found;
            }
        }
        if Instant::now() + pause >= end {
            return found;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_LAST);
    }
}

impl Found {
    /// What is known after one more answer. An address that was seen outweighs later silence:
    /// it says more.
    fn after<E: std::fmt::Display>(
        self,
        wanted: Address,
        url: &Url,
        seen: Result<IpAddr, E>,
    ) -> Self {
        let host = url.host_str().unwrap_or_default();
        match seen {
            Ok(ip) => {
                let success = Address::from_ip(ip) == wanted;
                let word = if success { "matched" } else { "mismatch" };
                let detail = format!("{word} {ip} seen by {host}");
                Self {
                    success,
                    detected: Some(ip),
                    detail,
                }
            }
            Err(_) if self.detected.is_some() => self,
            Err(error) => {
                let detail = format!("echo_unavailable: {host}: {error}");
                Self { detail, ..self }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const BUDGET: Duration = Duration::from_secs(10);

    fn urls(hosts: &[&str]) -> Vec<Url> {
        hosts
            .iter()
            .map(|host| format!("http://{host}/").parse().unwrap())
            .collect()
    }

    /// Runs it against answers by (host, number of the try), each at once; the hosts asked.
    async fn found(
        hosts: &[&str],
        answer: impl Fn(&str, usize) -> Result<&'static str, &'static str>,
    ) -> (Found, Vec<String>) {
        let asked = RefCell::new(Vec::new());
        let echo = |url: Url, _time: Duration| {
            let host = url.host_str().unwrap().to_owned();
            let n = asked.borrow().len();
            let seen = answer(&host, n).map(|ip| ip.parse().unwrap());
            asked.borrow_mut().push(host);
            async move { seen }
        };
        let wanted = Address::parse("203.0.113.10").unwrap();
        let found = self_check(wanted, &urls(hosts), BUDGET, echo).await;
        (found, asked.into_inner())
    }

    #[tokio::test(start_paused = true)]
    async fn a_match_ends_it_at_once() {
        let start = Instant::now();
        let (found, asked) = found(&["a", "b"], |_, _| Ok("203.0.113.10")).await;
        assert!(found.success);
        assert_eq!(found.detail, "matched 203.0.113.10 seen by a");
        assert_eq!((asked.len(), start.elapsed()), (1, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_data_plane_that_comes_late_is_waited_for() {
        let late = |_: &str, n| {
            if n < 5 {
                Ok("192.0.2.1")
            } else {
                Ok("203.0.113.10")
            }
        };
        let (found, asked) = found(&["a"], late).await;
        assert!(found.success);
        assert_eq!(asked.len(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn the_budget_ends_it_with_what_was_seen() {
        let start = Instant::now();
        let silent_b = |host: &str, _| {
            if host == "a" {
                Ok("192.0.2.1")
            } else {
                Err("silence")
            }
        };
        let (found, asked) = found(&["a", "b"], silent_b).await;
        assert!(!found.success && start.elapsed() <= BUDGET);
        assert_eq!(found.detected, Some("192.0.2.1".parse().unwrap()));
        assert_eq!(found.detail, "mismatch 192.0.2.1 seen by a");
        assert_eq!(asked[..4], ["a", "b", "a", "b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_of_all_is_no_address() {
        let (found, _) = found(&["a", "b"], |_, _| Err("refused")).await;
        assert_eq!((found.success, found.detected), (false, None));
        assert_eq!(found.detail, "echo_unavailable: b: refused");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_service_leaves_time_for_the_next() {
        let wanted = Address::parse("203.0.113.10").unwrap();
        let echo = |url: Url, time: Duration| async move {
            if url.host_str() == Some("a") {
                tokio::time::sleep(time).await;
                return Err("timeout");
            }
            Ok("203.0.113.10".parse::<IpAddr>().unwrap())
        };
        let found = self_check(wanted, &urls(&["a", "b"]), BUDGET, echo).await;
        assert!(found.success);
    }
}
