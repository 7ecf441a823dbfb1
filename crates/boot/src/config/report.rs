//! Where the rules between keys report: faults by key path, which the report turns into places.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use url::Url;

use super::Loaded;
use super::fault::{Fault, Faults, Mark};
use super::tree::{Entry, Kind, NodeId, ROOT, Tree};
use crate::secrets::SecretSource;

/// `parent.name`, or `parent["name"]` where the name holds other characters than letters, digits,
/// `-` and `_`.
#[must_use]
pub fn key(parent: &str, name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match (name.chars().all(plain) && !name.is_empty(), parent) {
        (true, "") => name.to_owned(),
        (true, _) => format!("{parent}.{name}"),
        (false, _) => format!("{parent}[{name:?}]"),
    }
}

/// Collects what the rules find; knows where each key stands.
#[derive(Debug)]
pub struct Report {
    tree: Tree,
    skip: BTreeSet<NodeId>,
    bad: BTreeSet<String>,
    faults: Vec<Fault>,
    warnings: Vec<Fault>,
}

impl Report {
    pub(super) fn new(
        tree: Tree,
        skip: BTreeSet<NodeId>,
        bad: BTreeSet<String>,
        faults: Vec<Fault>,
    ) -> Self {
        Self {
            tree,
            skip,
            bad,
            faults,
            warnings: Vec::new(),
        }
    }

    /// Reports a fault at `path`, as the raw struct has it: indices count the entries that were
    /// readable. Dropped if the key, or a section around it, already has a fault.
    pub fn fault(&mut self, path: &str, text: impl Into<String>) {
        let (full, mark) = self.resolve(path);
        if !self.has_fault(&full) {
            let fault = Fault::new(&self.tree.file, mark, &full, text.into());
            self.faults.push(fault);
        }
    }

    /// Reports what the operator should know although it stops nothing.
    pub fn warn(&mut self, path: &str, text: impl Into<String>) {
        let (full, mark) = self.resolve(path);
        let warning = Fault::new(&self.tree.file, mark, &full, text.into());
        self.warnings.push(warning);
    }

    /// Whether the key at `path`, or a section around it, could not be read: a rule that compares
    /// with it has nothing to say.
    #[must_use]
    pub fn is_bad(&self, path: &str) -> bool {
        let (full, _) = self.resolve(path);
        self.has_fault(&full)
    }

    /// Refuses a key whose function this version does not have.
    pub fn not_available(&mut self, path: &str, given: bool) {
        if given {
            self.fault(path, "is not available in this version: leave it out");
        }
    }

    /// A whole number within `range`, which must fit `N`.
    pub fn int<N>(&mut self, path: &str, value: i64, range: RangeInclusive<i64>) -> N
    where
        N: TryFrom<i64> + Default,
    {
        if !range.contains(&value) {
            let (least, most) = (range.start(), range.end());
            self.fault(
                path,
                format!("must be a whole number from {least} to {most}"),
            );
        }
        N::try_from(value).unwrap_or_default()
    }

    /// One of a fixed list of words.
    pub fn word<'w>(&mut self, path: &str, value: &str, words: &[&'w str]) -> Option<&'w str> {
        let found = words.iter().find(|word| **word == value).copied();
        if found.is_none() {
            self.fault(path, format!("must be one of: {}", words.join(", ")));
        }
        found
    }

    /// A text that `parse` turns into a newtype; its error is the end of the sentence `KEY …`.
    pub fn parsed<T, E: std::fmt::Display>(
        &mut self,
        path: &str,
        parsed: Result<T, E>,
    ) -> Option<T> {
        match parsed {
            Ok(value) => Some(value),
            Err(why) => {
                self.fault(path, why.to_string());
                None
            }
        }
    }

    /// A path of a file: any text but the empty one.
    pub fn path(&mut self, path: &str, value: Option<&str>) -> Option<PathBuf> {
        let value = value?;
        if value.trim().is_empty() {
            self.fault(path, "must be the path of a file, or left out");
            return None;
        }
        Some(PathBuf::from(value))
    }

    /// An `http` or `https` URL with a host and without a user or password in it.
    pub fn http_url(&mut self, path: &str, value: &str) -> Option<Url> {
        const ALLOWED: &str = "must be a URL that begins with http:// or https:// and names a host";
        let url = Url::parse(value).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let Some(url) = url else {
            self.fault(path, ALLOWED);
            return None;
        };
        if !url.username().is_empty() || url.password().is_some() {
            self.fault(path, "must not hold a user name or password");
            return None;
        }
        Some(url)
    }

    /// The pair `<base>_env` and `<base>_file`.
    pub fn secret(&mut self, base: &str, env: Option<&str>, file: Option<&str>) -> SecretSource {
        let named = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let good = |name: &str| {
            !name.is_empty()
                && name.chars().all(named)
                && !name.starts_with(|c: char| c.is_ascii_digit())
        };
        if env.is_some_and(|name| !good(name)) {
            self.fault(
                &format!("{base}_env"),
                "must be the name of an environment variable (letters, digits, `_`), not the \
                 secret itself",
            );
        }
        SecretSource {
            key: base.to_owned(),
            env: env.map(str::to_owned),
            file: self.path(&format!("{base}_file"), file),
        }
    }

    /// The settings, unless there is a fault.
    pub(super) fn finish<S>(self, settings: Option<S>) -> Result<Loaded<S>, Faults> {
        if let Some(faults) = Faults::of(self.faults) {
            return Err(faults);
        }
        let file = self.tree.file;
        let settings = settings.ok_or_else(|| {
            let text = "is incomplete, without a key to blame".to_owned();
            Faults::one(Fault::of_file(&file, text))
        })?;
        Ok(Loaded {
            settings,
            warnings: self.warnings,
        })
    }

    fn has_fault(&self, full: &str) -> bool {
        let around = |bad: &str| {
            full.strip_prefix(bad).is_some_and(|rest| {
                rest.is_empty() || bad.is_empty() || rest.starts_with(['.', '['])
            })
        };
        self.bad.iter().any(|bad| around(bad))
    }

    /// The path in the file and the place of the key, or of the nearest section around it. They
    /// differ from the raw struct's path where entries of a list were left out.
    fn resolve(&self, path: &str) -> (String, Mark) {
        let (mut id, mut rest) = (ROOT, path);
        while let Some((child, left)) = self.step(id, rest) {
            (id, rest) = (child, left);
        }
        let (at, mark) = match self.tree.node(id) {
            Some(node) => (node.path.as_str(), node.mark),
            None => ("", Mark { line: 1, column: 1 }),
        };
        let rest = if at.is_empty() {
            rest.trim_start_matches('.')
        } else {
            rest
        };
        (format!("{at}{rest}"), mark)
    }

    fn step<'p>(&self, id: NodeId, rest: &'p str) -> Option<(NodeId, &'p str)> {
        match &self.tree.node(id)?.kind {
            Kind::Section(entries) => entries.iter().find_map(|entry| {
                let left = strip_name(rest, entry)?;
                Some((entry.value, left))
            }),
            Kind::List(items) => {
                let (index, left) = rest.strip_prefix('[')?.split_once(']')?;
                let index: usize = index.parse().ok()?;
                let mut readable = items.iter().filter(|id| !self.skip.contains(id));
                Some((*readable.nth(index)?, left))
            }
            _ => None,
        }
    }
}

/// What follows the entry's name at the head of `rest`, if it stands there.
fn strip_name<'p>(rest: &'p str, entry: &Entry) -> Option<&'p str> {
    let rest = rest.strip_prefix('.').unwrap_or(rest);
    let left = rest.strip_prefix(key("", &entry.name).as_str())?;
    (left.is_empty() || left.starts_with(['.', '['])).then_some(left)
}
