//! From the tree into a raw struct, going on after a fault.
//!
//! serde stops at the first fault. So the faulty node is left out and the whole is read again,
//! until nothing is wrong: every raw field has a default. A key without a value counts as left out.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Read as _;
use std::path::Path;

use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{
    DeserializeOwned, Deserializer, Error as _, Expected, IntoDeserializer, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::BYTES_MAX;
use super::fault::Fault;
use super::report::Report;
use super::tree::{Entry, Kind, NodeId, ROOT, Tree};

/// So many faults are shown; a file with more is not the file that was meant.
const FAULTS_MAX: usize = 100;

/// Least likeness (Jaro-Winkler, 0 to 1) of a known key that is worth suggesting.
const LIKENESS_MIN: f64 = 0.8;

/// The text of the file, or a sentence why not.
pub(super) fn file(path: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("cannot be read: {error}");
    let file = std::fs::File::open(path).map_err(cannot)?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(cannot)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(format!("is larger than {BYTES_MAX} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("is not UTF-8 text (byte {at})")
    })
}

/// What serde found wrong, and at which node.
#[derive(Debug)]
struct Wrong {
    node: Option<NodeId>,
    what: What,
}

#[derive(Debug)]
enum What {
    UnknownKey(&'static [&'static str]),
    Type { expected: String },
    Other(String),
}

impl Wrong {
    fn at(mut self, node: NodeId) -> Self {
        self.node.get_or_insert(node);
        self
    }

    fn new(what: What) -> Self {
        Self { node: None, what }
    }
}

impl Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.what {
            What::UnknownKey(_) => f.write_str("unknown key"),
            What::Type { expected } => write!(f, "must be {expected}"),
            What::Other(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Wrong {}

impl serde::de::Error for Wrong {
    fn custom<T: Display>(text: T) -> Self {
        Self::new(What::Other(text.to_string()))
    }

    fn invalid_type(_unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(What::Type {
            expected: plain(&expected.to_string()),
        })
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(unexpected, expected)
    }

    fn unknown_field(_field: &str, expected: &'static [&'static str]) -> Self {
        Self::new(What::UnknownKey(expected))
    }
}

/// serde's words for a type, in words for an operator.
fn plain(expected: &str) -> String {
    let words = match expected {
        "a boolean" => "true or false",
        "a string" => "text (in quotes if it looks like a number)",
        "a sequence" => "a list",
        "a map" => "a section",
        "i64" => "a whole number",
        other if other.starts_with("struct ") => "a section of keys",
        other => other,
    };
    words.to_owned()
}

/// One node on its way into serde.
#[derive(Clone, Copy)]
struct Cursor<'t> {
    tree: &'t Tree,
    skip: &'t BTreeSet<NodeId>,
    id: NodeId,
}

/// A key, which knows at which node to report that it is unknown.
#[derive(Clone, Copy)]
struct Name<'t> {
    text: &'t str,
    value: NodeId,
}

impl<'de> IntoDeserializer<'de, Wrong> for Cursor<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> IntoDeserializer<'de, Wrong> for Name<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Name<'_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        StrDeserializer::new(self.text)
            .deserialize_any(visitor)
            .map_err(|wrong: Wrong| wrong.at(self.value))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}

impl<'t> Cursor<'t> {
    fn kind(self) -> Result<&'t Kind, Wrong> {
        let node = self.tree.node(self.id);
        node.map(|node| &node.kind)
            .ok_or_else(|| Wrong::custom("has no value"))
    }

    fn child(self, id: NodeId) -> Self {
        Self { id, ..self }
    }

    fn section<'de, V: Visitor<'de>>(
        self,
        entries: &[Entry],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let left = entries
            .iter()
            .filter(|entry| !self.skip.contains(&entry.value));
        visitor.visit_map(MapDeserializer::new(left.map(|entry| {
            let name = Name {
                text: &entry.name,
                value: entry.value,
            };
            (name, self.child(entry.value))
        })))
    }

    fn any<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.kind()? {
            Kind::Null => visitor.visit_unit(),
            Kind::Bool(value) => visitor.visit_bool(*value),
            Kind::Int(value) => visitor.visit_i64(*value),
            Kind::Number => visitor.visit_f64(f64::NAN),
            Kind::Text(text) => visitor.visit_str(text),
            Kind::List(items) => {
                let left = items.iter().filter(|id| !self.skip.contains(id));
                visitor.visit_seq(SeqDeserializer::new(left.map(|id| self.child(*id))))
            }
            Kind::Section(entries) => self.section(entries, visitor),
        }
    }
}

impl<'de> Deserializer<'de> for Cursor<'_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.any(visitor).map_err(|wrong| wrong.at(self.id))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.kind()? {
            Kind::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
        .map_err(|wrong| wrong.at(self.id))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        // serde would also take a list and fill the fields by place: a file is read by name only.
        match self.kind()? {
            Kind::Section(entries) => self.section(entries, visitor),
            _ => Err(Wrong::new(What::Type {
                expected: "a section of keys".to_owned(),
            })),
        }
        .map_err(|wrong| wrong.at(self.id))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// A tree that is being read, and what was wrong with it so far.
pub(super) struct Reading {
    tree: Tree,
    skip: BTreeSet<NodeId>,
    faults: Vec<Fault>,
    /// Paths with a fault: what a rule says about them afterwards is noise.
    bad: BTreeSet<String>,
}

impl Reading {
    pub(super) fn new(tree: Tree, faults: Vec<Fault>) -> Self {
        let bad = faults.iter().map(|fault| fault.path().to_owned()).collect();
        Self {
            tree,
            skip: BTreeSet::new(),
            faults,
            bad,
        }
    }

    pub(super) fn deserialize<R: DeserializeOwned + Default>(&mut self) -> R {
        while self.faults.len() < FAULTS_MAX {
            let cursor = Cursor {
                tree: &self.tree,
                skip: &self.skip,
                id: ROOT,
            };
            match R::deserialize(cursor) {
                Ok(raw) => return raw,
                Err(wrong) => {
                    let node = wrong.node.unwrap_or(ROOT);
                    self.note(node, &wrong.what);
                    if node == ROOT {
                        return R::default();
                    }
                    self.skip.insert(node);
                }
            }
        }
        let text = format!("has more than {FAULTS_MAX} faults; the others are not shown");
        self.faults.push(Fault::of_file(&self.tree.file, text));
        self.bad.insert(String::new());
        R::default()
    }

    pub(super) fn into_report(self) -> Report {
        Report::new(self.tree, self.skip, self.bad, self.faults)
    }

    fn note(&mut self, id: NodeId, what: &What) {
        let Some(node) = self.tree.node(id) else {
            return;
        };
        let mut mark = node.mark;
        let text = match what {
            // `key:` without a value, in a section: its default counts.
            What::Type { .. } if matches!(node.kind, Kind::Null) && !node.path.ends_with(']') => {
                return;
            }
            What::UnknownKey(known) => {
                let entry = self.tree.entry_of(id);
                mark = entry.map_or(mark, |entry| entry.mark);
                unknown(entry.map_or("", |entry| entry.name.as_str()), known)
            }
            What::Type { expected } => format!("must be {expected}, not {}", node.kind.name()),
            What::Other(text) => text.clone(),
        };
        self.bad.insert(node.path.clone());
        let fault = Fault::new(&self.tree.file, mark, &node.path, text);
        self.faults.push(fault);
    }
}

fn unknown(name: &str, known: &[&str]) -> String {
    let likeness = |other: &str| strsim::jaro_winkler(name, other);
    let nearest = known
        .iter()
        .map(|other| (likeness(other), *other))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let known = known.join(", ");
    match nearest {
        Some((_, nearest)) => {
            format!("unknown key; did you mean `{nearest}`? Known here: {known}")
        }
        None => format!("unknown key. Known here: {known}"),
    }
}
