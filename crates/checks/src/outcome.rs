//! What a check says: verdict, stable code, times, printable detail. Knows no sockets.

use std::time::Duration;

mod code;
mod evidence;

pub use code::Code;
pub(crate) use evidence::Trail;
pub use evidence::{Blame, Evidence, Hop, Phases, Stage, Tried};

/// Longest [`Outcome::detail`], in bytes.
pub(crate) const DETAIL_BYTES_MAX: usize = 1024;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Passed, failed, or not carried out for a reason of ours.
    pub verdict: Verdict,
    /// How far it came.
    pub stage: Stage,
    /// Who is to blame, if it did not pass.
    pub blame: Option<Blame>,
    /// Of the step that the check is about: echo round trip (mean), TCP connect, SSH banner after
    /// connect, TLS handshake after connect, first HTTP response byte after the request.
    pub latency: Option<Duration>,
    /// Wall time from the start of the socket work (resolving included); waiting is apart.
    pub duration: Duration,
    /// Time spent waiting for a slot of this process before and between the socket work.
    pub waited: Duration,
    /// The stable code (`ok` on success), then facts. Printable, at most 1 KiB.
    pub detail: String,
    /// What was seen on the way.
    pub evidence: Evidence,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The target answered as it should.
    Passed,
    /// The network or the target's fault.
    Failed(Code),
    /// Could not be carried out for a reason that says nothing about the address.
    Inconclusive(Code),
}

impl Verdict {
    /// `true` for [`Verdict::Passed`].
    #[must_use]
    pub const fn passed(self) -> bool {
        matches!(self, Self::Passed)
    }

    /// The code, if it did not pass.
    #[must_use]
    pub const fn code(self) -> Option<Code> {
        match self {
            Self::Passed => None,
            Self::Failed(code) | Self::Inconclusive(code) => Some(code),
        }
    }
}

/// Success of a probe, before it becomes an [`Outcome`].
#[derive(Debug)]
pub(crate) struct Seen {
    /// Of the step that the check is about.
    pub(crate) latency: Duration,
    /// What was seen, without the leading `ok`.
    pub(crate) facts: String,
}

/// Anything but success of a probe, before it becomes an [`Outcome`].
#[derive(Debug)]
pub(crate) struct Fault {
    /// Why.
    pub(crate) code: Code,
    /// What was seen, without the leading code.
    pub(crate) facts: String,
    /// Of the step that the check is about, if it came that far.
    pub(crate) latency: Option<Duration>,
}

impl Fault {
    /// A fault without a latency.
    pub(crate) fn new(code: Code, facts: impl Into<String>) -> Self {
        Self {
            code,
            facts: facts.into(),
            latency: None,
        }
    }

    /// The same, with `text` in front of the facts.
    pub(crate) fn context(mut self, text: &str) -> Self {
        self.facts = format!("{text} {}", self.facts);
        self
    }
}

/// Builds the outcome: code first, then facts, printable and bounded.
pub(crate) fn outcome(result: Result<Seen, Fault>, duration: Duration, trail: Trail) -> Outcome {
    let (verdict, latency, head, facts) = match result {
        Ok(seen) => (
            Verdict::Passed,
            Some(seen.latency),
            "ok".to_owned(),
            seen.facts,
        ),
        Err(fault) => (
            fault.code.verdict(),
            fault.latency,
            fault.code.to_string(),
            fault.facts,
        ),
    };
    let detail = printable(format!("{head} {facts}").trim_end(), DETAIL_BYTES_MAX);
    Outcome {
        blame: verdict.code().map(|code| Blame::of(code, trail.stage)),
        verdict,
        stage: trail.stage,
        latency,
        duration,
        waited: trail.waited,
        detail,
        evidence: trail.into_evidence(),
    }
}

/// `text` with control and odd characters escaped, cut at a character border to `max` bytes.
///
/// Peers choose what stands in banners and certificates; it ends in logs, terminals and pages.
pub(crate) fn printable(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max));
    for c in text.chars() {
        let odd = c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}');
        let shown = if odd {
            c.escape_default().to_string()
        } else {
            c.to_string()
        };
        // Three bytes stay free for the mark that something was cut.
        if out.len() + shown.len() > max.saturating_sub(3) {
            out.push_str("...");
            break;
        }
        out.push_str(&shown);
    }
    out
}

/// Milliseconds with two decimals, as all details print them.
pub(crate) fn millis(duration: Duration) -> String {
    format!("{:.2}ms", duration.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::any;
    use proptest::{prop_assert, proptest};

    use super::{Blame, Code, Duration, Fault, Trail, Verdict, outcome, printable};

    #[test]
    fn detail_begins_with_the_code_and_is_printable() {
        let fault = Fault::new(
            Code::TlsAlert("handshake_failure"),
            "from\u{1b}[31m\r\nhere",
        );
        let out = outcome(Err(fault), Duration::ZERO, Trail::default());
        assert_eq!(out.blame, Some(Blame::Target));
        assert_eq!(
            out.verdict,
            Verdict::Failed(Code::TlsAlert("handshake_failure"))
        );
        assert_eq!(
            out.detail,
            "tls_alert:handshake_failure from\\u{1b}[31m\\r\\nhere"
        );
    }

    #[test]
    fn printable_is_bounded_at_a_character_border() {
        let long = "ä".repeat(2000);
        let cut = printable(&long, 1024);
        assert!(cut.len() <= 1024 && cut.ends_with("..."));
        assert!(cut.starts_with("ää"));
    }

    proptest! {
        #[test]
        fn any_text_becomes_printable_and_bounded(text in any::<String>(), max in 3_usize..200) {
            let shown = printable(&text, max);
            prop_assert!(shown.len() <= max);
            prop_assert!(!shown.chars().any(char::is_control));
        }
    }
}
