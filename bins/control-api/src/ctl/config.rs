//! `ctl config`: the configuration that lives in the database.

use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::args::{Config, Deletable, Section, Set};
use super::client::{Answer, Client, Reply};
use super::error::{CtlError, Result};
use super::output::{self, Output};
use super::table::{self, Column, Kind};
use super::values::{self, Kind as Pair};

const ALL: [Section; 6] = [
    Section::Validators,
    Section::Sites,
    Section::Targets,
    Section::CheckTypes,
    Section::Orchestrator,
    Section::InboundChecks,
];

const CHECK_TYPE: &[(&str, Pair)] = &[
    ("enabled", Pair::Flag),
    ("targets", Pair::Names),
    ("options", Pair::Json),
];

const ORCHESTRATOR: &[(&str, Pair)] = &[
    ("fip_settle_seconds", Pair::Number),
    ("history_retention_cycles", Pair::Number),
];

const INBOUND: &[(&str, Pair)] = &[
    ("ports", Pair::Numbers),
    ("icmp", Pair::Flag),
    ("closed_ports", Pair::Numbers),
];

impl Section {
    /// Its name in paths, and as a title.
    const fn path(self) -> &'static str {
        match self {
            Self::Validators => "validators",
            Self::Sites => "sites",
            Self::Targets => "targets",
            Self::CheckTypes => "check-types",
            Self::Orchestrator => "orchestrator",
            Self::InboundChecks => "inbound-checks",
        }
    }

    const fn columns(self) -> &'static [Column] {
        match self {
            Self::Validators => &[
                ("VALIDATOR", "validator_id", Kind::Text),
                ("STATE", "state", Kind::Word),
                ("PORT", "os_port_id", Kind::Text),
            ],
            Self::Sites => &[
                ("SLOT", "index", Kind::Text),
                ("SITE", "site_id", Kind::Text),
                ("STATE", "state", Kind::Word),
                ("HOST", "hostname", Kind::Text),
                ("LAST SEEN", "last_heartbeat_at", Kind::Time),
            ],
            Self::Targets => &[
                ("GROUP", "name", Kind::Text),
                ("TARGETS", "targets", Kind::Text),
            ],
            Self::CheckTypes => &[
                ("CHECK TYPE", "name", Kind::Text),
                ("ENABLED", "enabled", Kind::Text),
                ("TARGETS", "targets", Kind::Text),
                ("OPTIONS", "options", Kind::Text),
            ],
            Self::Orchestrator => &[
                ("fip_settle_seconds", "fip_settle_seconds", Kind::Text),
                (
                    "history_retention_cycles",
                    "history_retention_cycles",
                    Kind::Text,
                ),
            ],
            Self::InboundChecks => &[
                ("ports", "ports", Kind::Text),
                ("icmp", "icmp", Kind::Text),
                ("closed_ports", "closed_ports", Kind::Text),
            ],
        }
    }

    fn shown(self, answer: &Answer, out: Output) -> String {
        match &answer.json {
            Value::Array(rows) => table::table(rows, self.columns(), out),
            one => table::fields(one, self.columns(), out),
        }
    }
}

impl Deletable {
    const fn path(self) -> &'static str {
        match self {
            Self::Validators => Section::Validators.path(),
            Self::Sites => Section::Sites.path(),
            Self::Targets => Section::Targets.path(),
            Self::CheckTypes => Section::CheckTypes.path(),
        }
    }
}

pub(super) async fn run(command: Config, client: &Client, out: &Output) -> Result<()> {
    match command {
        Config::Get {
            section: Some(section),
        } => {
            let answer = client.get(&["config", section.path()]).await?;
            out.answer(&answer, |answer| Ok(section.shown(answer, *out)))
        }
        Config::Get { section: None } => get_all(client, out).await,
        Config::Set { what } => {
            let answer = set(what, client).await?;
            out.answer(&answer, |_| Ok("done\n".to_owned()))
        }
        Config::Delete { section, name } => {
            let path = ["config", section.path(), &name];
            let answer = client.call(Method::DELETE, &path, None).await?;
            out.answer(&answer, |_| Ok("done\n".to_owned()))
        }
    }
}

/// Every part under its title; with `--json` one object with the answers as its fields.
async fn get_all(client: &Client, out: &Output) -> Result<()> {
    let (mut text, mut whole) = (String::new(), Vec::new());
    for section in ALL {
        let answer = client.get(&["config", section.path()]).await?;
        text.push_str(&format!("{}\n", section.path()));
        for line in section.shown(&answer, *out).lines() {
            text.push_str(&format!("  {line}\n"));
        }
        text.push('\n');
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        whole.push(format!("\"{}\":{}", section.path(), body.trim()));
    }
    if out.json {
        return output::write(&format!("{{{}}}", whole.join(",")));
    }
    output::write(text.trim_end())
}

async fn set(what: Set, client: &Client) -> Result<Answer> {
    match what {
        Set::Validators { id, port } => {
            set_validator(&id, value_of(&port, "os_port_id"), client).await
        }
        Set::Sites { slot, site } => {
            let body = json!({"site_id": value_of(&site, "site_id")});
            put(&["config", "sites", &slot.to_string()], &body, client).await
        }
        Set::Targets { group, targets } => {
            let body = json!({"targets": targets});
            put(&["config", "targets", &group], &body, client).await
        }
        Set::CheckTypes { name, pairs } => {
            let changes = values::fields(&pairs, CHECK_TYPE)?;
            let body = check_type(&name, changes, client).await?;
            put(&["config", "check-types", &name], &body, client).await
        }
        Set::Orchestrator { pairs } => {
            let body = Value::from(values::fields(&pairs, ORCHESTRATOR)?);
            put(&["config", "orchestrator"], &body, client).await
        }
        Set::InboundChecks { pairs } => {
            let changes = values::fields(&pairs, INBOUND)?;
            let path = ["config", "inbound-checks"];
            let now = client.get(&path).await?.json;
            put(&path, &merged(&now, changes, INBOUND), client).await
        }
    }
}

/// `KEY=VALUE` where VALUE alone is meant, for those who write it as in the other parts.
fn value_of<'t>(text: &'t str, key: &str) -> &'t str {
    let after = text.strip_prefix(key);
    after
        .and_then(|rest| rest.strip_prefix('='))
        .unwrap_or(text)
}

async fn put(path: &[&str], body: &Value, client: &Client) -> Result<Answer> {
    client.call(Method::PUT, path, Some(body)).await
}

/// Changes a validator, or adds it if there is none of that name.
async fn set_validator(id: &str, port: &str, client: &Client) -> Result<Answer> {
    let url = client.url(&["config", "validators", id]);
    let change = json!({"os_port_id": port});
    match client.send(Method::PUT, url, Some(&change)).await? {
        Reply::Done(answer) => Ok(answer),
        Reply::Refused(StatusCode::NOT_FOUND, _) => {
            let body = json!({"validator_id": id, "os_port_id": port});
            let path = ["config", "validators"];
            client.call(Method::POST, &path, Some(&body)).await
        }
        Reply::Refused(_, error) => Err(error),
    }
}

/// The whole entry: what was given, over what there is, over an enabled one.
async fn check_type(name: &str, changes: Map<String, Value>, client: &Client) -> Result<Value> {
    let all = client.get(&["config", "check-types"]).await?.json;
    let entries = all.as_array().map_or(&[][..], Vec::as_slice);
    let now = entries.iter().find(|entry| entry["name"] == name).cloned();
    let missing = now.is_none() && !changes.contains_key("targets");
    if missing {
        let text = format!("there is no check type {name} yet: say its groups, targets=GROUP,…");
        return Err(CtlError::Usage(text));
    }
    let now = now.unwrap_or_else(|| json!({"enabled": true}));
    Ok(merged(&now, changes, CHECK_TYPE))
}

/// The known keys of `now`, changed.
fn merged(now: &Value, changes: Map<String, Value>, keys: &[(&str, Pair)]) -> Value {
    let mut body = Map::new();
    for (key, _) in keys {
        if let Some(value) = now.get(*key).filter(|value| !value.is_null()) {
            body.insert((*key).to_owned(), value.clone());
        }
    }
    body.extend(changes);
    Value::from(body)
}
