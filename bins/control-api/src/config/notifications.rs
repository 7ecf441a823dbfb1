//! The section `notifications`: who is told of events by HTTP.

use std::collections::BTreeSet;
use std::time::Duration;

use civ_boot::config::Report;
use civ_boot::secrets::SecretSource;
use civ_types::EVENT_TYPES;
use serde::Deserialize;
use url::Url;

/// Most receivers: each has a task and an outbox of its own.
const RECEIVERS_MAX: usize = 32;

/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// One receiver.
#[derive(Debug, Clone)]
pub struct Receiver {
    /// Names its outbox: 1 to 64 letters, digits, `-` and `_`, no name twice.
    pub name: String,
    /// `http` or `https`. It may hold a secret of the receiver, so that it is never logged.
    pub url: Url,
    /// The key of the signatures; read when the process starts.
    pub secret: SecretSource,
    /// Event types, or `*` alone.
    pub events: Vec<String>,
    /// Time for one request: 1 to 60 s.
    pub timeout: Duration,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Raw {
    name: Option<String>,
    url: Option<String>,
    secret_env: Option<String>,
    secret_file: Option<String>,
    events: Vec<String>,
    timeout_seconds: i64,
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            name: None,
            url: None,
            secret_env: None,
            secret_file: None,
            events: Vec::new(),
            timeout_seconds: 10,
        }
    }
}

pub(super) fn build(raw: &[Raw], report: &mut Report) -> Vec<Receiver> {
    if RECEIVERS_MAX < raw.len() {
        let text = format!("must not hold more than {RECEIVERS_MAX} receivers");
        report.fault("notifications", text);
    }
    let mut names = BTreeSet::new();
    let mut built = Vec::with_capacity(raw.len());
    for (index, raw) in raw.iter().enumerate() {
        let path = format!("notifications[{index}]");
        let name = name(&path, raw.name.as_deref(), report);
        if name.is_some_and(|name| !names.insert(name.to_owned())) {
            let text = "names a receiver that the list already has";
            report.fault(&format!("{path}.name"), text);
        }
        let url = url(&path, raw.url.as_deref(), report);
        let base = format!("{path}.secret");
        let secret = report.secret(&base, raw.secret_env.as_deref(), raw.secret_file.as_deref());
        if raw.secret_env.is_none() && raw.secret_file.is_none() {
            let text = "must be given, or secret_file: the key that signs what is sent";
            report.fault(&format!("{path}.secret_env"), text);
        }
        let events = events(&path, &raw.events, report);
        let timeout_path = format!("{path}.timeout_seconds");
        let timeout = report.int(&timeout_path, raw.timeout_seconds, 1..=60);
        if let (Some(name), Some(url)) = (name, url) {
            built.push(Receiver {
                name: name.to_owned(),
                url,
                secret,
                events,
                timeout: Duration::from_secs(timeout),
            });
        }
    }
    built
}

fn name<'r>(path: &str, name: Option<&'r str>, report: &mut Report) -> Option<&'r str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let good = |name: &&str| (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(plain);
    let good = name.filter(good);
    if good.is_none() {
        let text = format!("must be given: 1 to {NAME_BYTES_MAX} letters, digits, `-` and `_`");
        report.fault(&format!("{path}.name"), text);
    }
    good
}

fn url(path: &str, text: Option<&str>, report: &mut Report) -> Option<Url> {
    let path = format!("{path}.url");
    let Some(text) = text else {
        report.fault(&path, "must be given: an http or https URL");
        return None;
    };
    report.http_url(&path, text)
}

fn events(path: &str, raw: &[String], report: &mut Report) -> Vec<String> {
    let path = format!("{path}.events");
    if raw.is_empty() {
        report.fault(&path, "must name at least one event, or \"*\" for all");
    }
    let mut seen = BTreeSet::new();
    for (index, event) in raw.iter().enumerate() {
        let place = format!("{path}[{index}]");
        if event == "*" {
            if raw.len() > 1 {
                report.fault(&place, "stands for all events: leave the others out");
            }
        } else if !EVENT_TYPES.contains(&event.as_str()) {
            let known = EVENT_TYPES.join(", ");
            let text = format!("is no event type; there are: {known}; \"*\" stands for all");
            report.fault(&place, text);
        } else if !seen.insert(event) {
            report.fault(&place, "names an event that the list already has");
        }
    }
    raw.to_vec()
}
