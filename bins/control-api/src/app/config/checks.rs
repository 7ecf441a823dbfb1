//! Target groups and the check types that refer to them.

use civ_store::{StoreError, WriteTx, check_types, targets};
use civ_types::{CheckName, EGRESS_CHECKS, OptionKind};
use regex::RegexBuilder;
use serde_json::{Map, Value, json};

use super::super::audit::{Caller, Change, record};
use super::super::{App, AppError};
use crate::config::is_target;

/// Longest name of a group, in characters, as for every other name.
const NAME_CHARS_MAX: usize = 128;
/// Longest regular expression of an option, in characters.
const PATTERN_CHARS_MAX: usize = 1024;
/// Most memory of a compiled one, in bytes: `(a{1000}){1000}` is short, too.
const PATTERN_SIZE_MAX: usize = 1024 * 1024;

/// A named list of targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetGroup {
    /// Its name.
    pub name: String,
    /// Its targets, in the order in which they were given.
    pub targets: Vec<String>,
}

/// A check type as it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckType {
    /// Its name.
    pub name: CheckName,
    /// Whether it is handed out.
    pub enabled: bool,
    /// Names of target groups.
    pub groups: Vec<String>,
    /// Its options as JSON text, if any are set.
    pub options: Option<String>,
}

/// A check type as it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCheckType {
    /// Whether it is handed out.
    pub enabled: bool,
    /// Names of target groups.
    pub groups: Vec<String>,
    /// Its options; `None`: as they are, empty: none.
    pub options: Option<Map<String, Value>>,
}

/// What every site checks of every address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inbound {
    /// TCP ports that are to answer.
    pub ports: Vec<u16>,
    /// TCP ports on which nothing is to answer.
    pub closed_ports: Vec<u16>,
    /// Whether to send echo requests.
    pub icmp: bool,
}

fn group_name(name: &str) -> Result<(), AppError> {
    let odd = |c: char| c.is_control() || c == '/';
    if name.trim().is_empty() || NAME_CHARS_MAX < name.chars().count() || name.contains(odd) {
        let allowed = "1 to 128 characters without control characters and slashes";
        return Err(AppError::bad("group", name, allowed));
    }
    Ok(())
}

fn check_targets(targets: &[String]) -> Result<(), AppError> {
    if targets.is_empty() {
        let text = "targets: the list is empty: name at least one target";
        return Err(AppError::BadInput(text.to_owned()));
    }
    match targets.iter().find(|target| !is_target(target)) {
        Some(bad) => Err(AppError::bad(
            "targets",
            bad,
            "a URL, a host or host:port, without white space",
        )),
        None => Ok(()),
    }
}

fn check_name(name: &str) -> Result<CheckName, AppError> {
    let known = CheckName::parse(name).ok().filter(CheckName::is_egress);
    known.ok_or_else(|| {
        let allowed = format!("there are the check types {EGRESS_CHECKS}");
        AppError::bad("name", name, allowed)
    })
}

/// An option that the check type does not have, or a value that it cannot have, is refused by its
/// name: an agent would not know what to do with it.
fn check_options(name: &CheckName, options: &Map<String, Value>) -> Result<(), AppError> {
    for (option, value) in options {
        let allowed = match name.option(option) {
            Some(kind) if fits(kind, value) => continue,
            Some(kind) => format!("give {}", kind.allowed()),
            None => known_options(name),
        };
        return Err(AppError::BadInput(format!(
            "options.{option}: {value} is not allowed: {allowed}"
        )));
    }
    Ok(())
}

fn known_options(name: &CheckName) -> String {
    let known: Vec<_> = name.options().map(|(option, _)| option).collect();
    if known.is_empty() {
        format!("check type {name} has no options")
    } else {
        format!("check type {name} has the options {}", known.join(", "))
    }
}

fn fits(kind: OptionKind, value: &Value) -> bool {
    match kind {
        OptionKind::Flag => value.is_boolean(),
        OptionKind::Status => value.as_u64().is_some_and(|n| (100..=599).contains(&n)),
        OptionKind::Pattern => value.as_str().is_some_and(is_pattern),
    }
}

/// Whether an agent can use it; the bound on its size is the agent's.
fn is_pattern(text: &str) -> bool {
    let length = text.chars().count();
    let compiled = RegexBuilder::new(text).size_limit(PATTERN_SIZE_MAX).build();
    (1..=PATTERN_CHARS_MAX).contains(&length) && compiled.is_ok()
}

fn check_groups(tx: &WriteTx<'_>, groups: &[String]) -> Result<(), AppError> {
    let known = targets::list(tx)?;
    let exists = |name: &String| known.iter().any(|group| group.name == *name);
    let Some(bad) = groups.iter().find(|name| !exists(name)) else {
        return Ok(());
    };
    let names: Vec<_> = known.iter().map(|group| group.name.as_str()).collect();
    let allowed = if names.is_empty() {
        "there are no target groups: PUT one under /config/targets first".to_owned()
    } else {
        format!("there are the target groups {}", names.join(", "))
    };
    Err(AppError::bad("targets", bad, allowed))
}

fn group_told(tx: &WriteTx<'_>, name: &str) -> Result<Value, StoreError> {
    let group = targets::by_name(tx, name)?;
    Ok(group.map_or(Value::Null, |group| json!({"targets": group.targets})))
}

fn type_told(row: &check_types::CheckTypeRow) -> Value {
    json!({"enabled": row.enabled, "targets": row.groups, "options": row.options})
}

impl App {
    /// All target groups, in order of name.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn config_targets(&self) -> Result<Vec<TargetGroup>, AppError> {
        let rows = self.read(targets::list).await.map_err(AppError::Store)?;
        let group = |row: targets::TargetGroup| TargetGroup {
            name: row.name,
            targets: row.targets,
        };
        Ok(rows.into_iter().map(group).collect())
    }

    /// Adds a target group or replaces its targets.
    ///
    /// # Errors
    /// [`AppError::BadInput`] for a bad name, an empty list and a target that is none.
    pub async fn config_targets_set(
        &self,
        caller: &Caller,
        name: String,
        list: Vec<String>,
    ) -> Result<(), AppError> {
        group_name(&name)?;
        check_targets(&list)?;
        let caller = caller.clone();
        self.write(move |tx| {
            let before = group_told(tx, &name)?;
            targets::put(tx, &name, &list)?;
            let change = Change {
                event_type: "config_targets_set",
                what: format!("config targets {name}"),
                before,
                after: json!({"targets": list}),
            };
            record(tx, &caller, &change)
        })
        .await
        .map_err(AppError::Store)
    }

    /// Removes a target group.
    ///
    /// # Errors
    /// [`AppError::NotFound`]; [`AppError::Conflict`] while a check type refers to it.
    pub async fn config_targets_delete(
        &self,
        caller: &Caller,
        name: String,
    ) -> Result<(), AppError> {
        let caller = caller.clone();
        self.write(move |tx| {
            let before = group_told(tx, &name)?;
            if before.is_null() {
                let text = format!("there is no target group {name:?}");
                return Err(AppError::NotFound(text));
            }
            let users = targets::users(tx, &name)?;
            if !users.is_empty() {
                let users: Vec<_> = users.iter().map(ToString::to_string).collect();
                let text = format!(
                    "target group {name:?} is used by the check types {}: change them first",
                    users.join(", ")
                );
                return Err(AppError::Conflict(text));
            }
            targets::delete(tx, &name)?;
            let change = Change {
                event_type: "config_targets_deleted",
                what: format!("config targets {name}"),
                before,
                after: Value::Null,
            };
            Ok(record(tx, &caller, &change)?)
        })
        .await
    }

    /// All check types, in order of name.
    ///
    /// # Errors
    /// [`AppError::Store`].
    pub async fn config_check_types(&self) -> Result<Vec<CheckType>, AppError> {
        let rows = self
            .read(check_types::list)
            .await
            .map_err(AppError::Store)?;
        let kind = |row: check_types::CheckTypeRow| CheckType {
            name: row.name,
            enabled: row.enabled,
            groups: row.groups,
            options: row.options,
        };
        Ok(rows.into_iter().map(kind).collect())
    }

    /// Adds a check type or replaces it.
    ///
    /// # Errors
    /// [`AppError::BadInput`] for a name that no check type has, a group that does not exist, and
    /// an option that the check type does not have.
    pub async fn config_check_type_set(
        &self,
        caller: &Caller,
        name: &str,
        new: NewCheckType,
    ) -> Result<(), AppError> {
        let name = check_name(name)?;
        if let Some(options) = &new.options {
            check_options(&name, options)?;
        }
        let caller = caller.clone();
        self.write(move |tx| {
            check_groups(tx, &new.groups)?;
            let before = check_types::by_name(tx, &name)?;
            let stored = before.as_ref().and_then(|row| row.options.clone());
            let after = check_types::CheckTypeRow {
                name: name.clone(),
                enabled: new.enabled,
                groups: new.groups,
                options: match new.options {
                    None => stored,
                    Some(options) if options.is_empty() => None,
                    Some(options) => Some(Value::Object(options).to_string()),
                },
            };
            check_types::put(tx, &after)?;
            let change = Change {
                event_type: "config_check_type_set",
                what: format!("config check-types {name}"),
                before: before.as_ref().map_or(Value::Null, type_told),
                after: type_told(&after),
            };
            Ok(record(tx, &caller, &change)?)
        })
        .await
    }

    /// Removes a check type.
    ///
    /// # Errors
    /// [`AppError::NotFound`].
    pub async fn config_check_type_delete(
        &self,
        caller: &Caller,
        name: &str,
    ) -> Result<(), AppError> {
        let unknown = AppError::NotFound(format!("check type {name:?} is not configured"));
        let Ok(name) = CheckName::parse(name) else {
            return Err(unknown);
        };
        let caller = caller.clone();
        self.write(move |tx| {
            let before = check_types::by_name(tx, &name)?.ok_or(unknown)?;
            check_types::delete(tx, &name)?;
            let change = Change {
                event_type: "config_check_type_deleted",
                what: format!("config check-types {name}"),
                before: type_told(&before),
                after: Value::Null,
            };
            Ok(record(tx, &caller, &change)?)
        })
        .await
    }
}
