//! An outcome for people and for scripts.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::outcome::{millis, printable};
use crate::{Check, Code, Evidence, Outcome, Verdict};

/// Longest show of the peer's first bytes, in characters.
const HEAD_SHOWN_MAX: usize = 200;

fn ms(duration: Option<Duration>) -> Value {
    duration.map_or(Value::Null, |d| {
        // Microseconds are as fine as anything here is measured.
        let micros = u32::try_from(d.as_micros()).unwrap_or(u32::MAX);
        json!(f64::from(micros) / 1e3)
    })
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "pass",
        Verdict::Failed(_) => "fail",
        Verdict::Inconclusive(_) => "inconclusive",
    }
}

fn head(evidence: &Evidence) -> String {
    printable(&String::from_utf8_lossy(&evidence.head), HEAD_SHOWN_MAX)
}

impl Outcome {
    /// Everything, as one JSON object; times in milliseconds.
    #[must_use]
    pub fn to_json(&self, check: &Check) -> Value {
        let seen = &self.evidence;
        let tried = |t: &crate::Tried| {
            json!({
                "address": t.address.to_string(),
                "code": t.code.map_or_else(|| "ok".to_owned(), |code| code.to_string()),
                "ms": ms(Some(t.took)),
            })
        };
        let hop = |h: &crate::Hop| {
            let address = h.address.to_string();
            json!({"status": h.status, "url": h.url, "address": address})
        };
        json!({
            "check_type": check.kind.as_str(),
            "target": check.target.to_string(),
            "source": check.source.map(|ip| ip.to_string()),
            "verdict": word(self.verdict),
            "code": self.verdict.code().map_or_else(|| "ok".to_owned(), |code| code.to_string()),
            "stage": self.stage.as_str(),
            "blame": self.blame.map(|blame| blame.as_str()),
            "detail": self.detail,
            "latency_ms": ms(self.latency),
            "duration_ms": ms(Some(self.duration)),
            "waited_ms": ms(Some(self.waited)),
            "evidence": {
                "tried": seen.tried.iter().map(tried).collect::<Vec<_>>(),
                "hops": seen.hops.iter().map(hop).collect::<Vec<_>>(),
                "omitted": seen.omitted,
                "phases_ms": {
                    "resolve": ms(seen.phases.resolve),
                    "connect": ms(seen.phases.connect),
                    "handshake": ms(seen.phases.handshake),
                    "first_byte": ms(seen.phases.first_byte),
                },
                "bytes_sent": seen.bytes_sent,
                "bytes_received": seen.bytes_received,
                "head": head(seen),
            },
        })
    }

    /// Everything, as lines.
    #[must_use]
    pub fn to_text(&self, check: &Check) -> String {
        let mut out = format!("{} {}: {}\n", check.kind, check.target, word(self.verdict));
        let mut line = |name: &str, value: &str| {
            // Writing to a String cannot fail.
            let _infallible = writeln!(out, "  {name:<11}{value}");
        };
        line("detail", &self.detail);
        if let Some(blame) = self.blame {
            line("ended in", &format!("{}, to blame: {blame}", self.stage));
        }
        let seen = &self.evidence;
        for tried in &seen.tried {
            let code = tried
                .code
                .map_or("ok".to_owned(), |code: Code| code.to_string());
            line(
                "tried",
                &format!("{} {code} {}", tried.address, millis(tried.took)),
            );
        }
        for hop in &seen.hops {
            line(
                "redirect",
                &format!("{} {} by {}", hop.status, hop.url, hop.address),
            );
        }
        if seen.omitted > 0 {
            line("omitted", &format!("{} more of these", seen.omitted));
        }
        line("time", &self.times());
        line(
            "bytes",
            &format!("{} sent, {} received", seen.bytes_sent, seen.bytes_received),
        );
        if !seen.head.is_empty() {
            line("began with", &head(seen));
        }
        out.truncate(out.trim_end().len());
        out
    }

    fn times(&self) -> String {
        let phases = self.evidence.phases;
        let named = [
            ("resolve", phases.resolve),
            ("connect", phases.connect),
            ("handshake", phases.handshake),
            ("first byte", phases.first_byte),
            ("in all", Some(self.duration)),
            ("waited", Some(self.waited).filter(|w| !w.is_zero())),
        ];
        let shown: Vec<String> = named
            .into_iter()
            .filter_map(|(name, took)| Some(format!("{name} {}", millis(took?))))
            .collect();
        shown.join(", ")
    }
}
