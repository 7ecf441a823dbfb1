//! The file as a tree whose every node knows its place and its key path.
//!
//! The events come from a parser that marks them; what a plain scalar means (`22`, `true`, `~`) is
//! decided by `serde_yaml`, so that there is one reading of YAML's types. Anchors, aliases and tags
//! are refused: a configuration gains nothing by them, and without aliases no small file can unfold
//! into a large one.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, StrInput};
use serde_yaml::Value;

use super::fault::{Fault, Faults, Mark};
use super::report::key;

/// Deepest accepted nesting; the deepest documented key has four levels.
const DEPTH_MAX: usize = 16;

/// Index of a node in its tree.
pub(super) type NodeId = usize;

pub(super) const ROOT: NodeId = 0;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) path: String,
    pub(super) mark: Mark,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    Int(i64),
    /// A number that is no `i64`; no setting takes one, so its value is not kept.
    Number,
    Text(String),
    List(Vec<NodeId>),
    Section(Vec<Entry>),
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) mark: Mark,
    pub(super) value: NodeId,
}

impl Kind {
    /// What stands there, in the words of a fault; never the value.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Int(_) => "a whole number",
            Self::Number => "a number with a fraction, or a very large one",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Section(_) => "a section",
        }
    }

    fn of_scalar(text: &str, style: ScalarStyle) -> Self {
        if style != ScalarStyle::Plain {
            return Self::Text(text.to_owned());
        }
        match serde_yaml::from_str(text) {
            Ok(Value::Null) => Self::Null,
            Ok(Value::Bool(value)) => Self::Bool(value),
            Ok(Value::Number(number)) => number.as_i64().map_or(Self::Number, Self::Int),
            _ => Self::Text(text.to_owned()),
        }
    }
}

#[derive(Debug)]
pub(super) struct Tree {
    pub(super) file: String,
    nodes: Vec<Node>,
}

impl Tree {
    /// The tree, and the faults that do not stop the reading: repeated keys (the first counts).
    ///
    /// # Errors
    /// What makes the rest unreadable: bad syntax, too deep, several documents, no section at the
    /// top.
    pub(super) fn parse(file: &str, text: &str) -> Result<(Self, Vec<Fault>), Faults> {
        let mut builder = Builder {
            file,
            parser: Parser::new_from_str(text),
            nodes: Vec::new(),
            faults: Vec::new(),
        };
        builder.document().map_err(Faults::one)?;
        let tree = Self {
            file: file.to_owned(),
            nodes: builder.nodes,
        };
        Ok((tree, builder.faults))
    }

    pub(super) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// The key under which a node stands; `None` for the root and the items of a list.
    pub(super) fn entry_of(&self, id: NodeId) -> Option<&Entry> {
        self.nodes.iter().find_map(|node| match &node.kind {
            Kind::Section(entries) => entries.iter().find(|entry| entry.value == id),
            _ => None,
        })
    }
}

struct Builder<'a> {
    file: &'a str,
    parser: Parser<'a, StrInput<'a>>,
    nodes: Vec<Node>,
    faults: Vec<Fault>,
}

fn mark(marker: &Marker) -> Mark {
    Mark {
        line: marker.line().max(1),
        column: marker.col() + 1,
    }
}

impl<'a> Builder<'a> {
    fn fault(&self, at: Mark, path: &str, text: &str) -> Fault {
        Fault::new(self.file, at, path, text.to_owned())
    }

    fn next(&mut self) -> Result<(Event<'a>, Mark), Fault> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, mark(&span.start))),
            Some(Err(error)) => {
                let text = format!("not valid YAML: {}", error.info());
                Err(self.fault(mark(error.marker()), "", &text))
            }
            None => Ok((Event::StreamEnd, Mark { line: 1, column: 1 })),
        }
    }

    fn document(&mut self) -> Result<(), Fault> {
        loop {
            let (event, at) = self.next()?;
            match event {
                Event::StreamStart | Event::Nothing | Event::DocumentEnd => {}
                Event::DocumentStart(_) if self.nodes.is_empty() => self.top()?,
                Event::DocumentStart(_) => {
                    return Err(self.fault(at, "", "a second document: only one is read"));
                }
                _ => break,
            }
        }
        if self.nodes.is_empty() {
            self.add("", Mark { line: 1, column: 1 }, Kind::Section(Vec::new()));
        }
        Ok(())
    }

    fn top(&mut self) -> Result<(), Fault> {
        let (event, at) = self.next()?;
        let root = self.value(event, at, "", 0)?;
        let Some(node) = self.nodes.get_mut(root) else {
            return Ok(());
        };
        match node.kind {
            Kind::Section(_) => Ok(()),
            // A file of comments only: everything has its default.
            Kind::Null => {
                node.kind = Kind::Section(Vec::new());
                Ok(())
            }
            _ => Err(self.fault(at, "", "the top of the file must be a section of keys")),
        }
    }

    fn add(&mut self, path: &str, mark: Mark, kind: Kind) -> NodeId {
        self.nodes.push(Node {
            path: path.to_owned(),
            mark,
            kind,
        });
        self.nodes.len() - 1
    }

    fn set(&mut self, id: NodeId, kind: Kind) {
        if let Some(node) = self.nodes.get_mut(id) {
            node.kind = kind;
        }
    }

    fn value(
        &mut self,
        event: Event<'a>,
        at: Mark,
        path: &str,
        depth: usize,
    ) -> Result<NodeId, Fault> {
        if depth > DEPTH_MAX {
            return Err(self.fault(at, path, "nested too deeply"));
        }
        let (anchor, tag, kind) = match event {
            Event::Scalar(text, style, anchor, tag) => (anchor, tag, Kind::of_scalar(&text, style)),
            Event::SequenceStart(anchor, tag) => (anchor, tag, Kind::List(Vec::new())),
            Event::MappingStart(anchor, tag) => (anchor, tag, Kind::Section(Vec::new())),
            Event::Alias(_) => {
                return Err(self.fault(at, path, "an alias (`*name`): write the value out"));
            }
            _ => return Err(self.fault(at, path, "not valid YAML: a value was expected")),
        };
        if anchor != 0 {
            return Err(self.fault(at, path, "an anchor (`&name`): write the value out"));
        }
        if tag.is_some() {
            return Err(self.fault(at, path, "a tag (`!name`): write the plain value"));
        }
        let (list, section) = (
            matches!(kind, Kind::List(_)),
            matches!(kind, Kind::Section(_)),
        );
        // The node is added before its children, so that the root has index 0.
        let id = self.add(path, at, kind);
        if list {
            let items = self.list(path, depth)?;
            self.set(id, Kind::List(items));
        } else if section {
            let entries = self.section(path, depth)?;
            self.set(id, Kind::Section(entries));
        }
        Ok(id)
    }

    fn list(&mut self, path: &str, depth: usize) -> Result<Vec<NodeId>, Fault> {
        let mut items = Vec::new();
        loop {
            let (event, at) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(items);
            }
            let path = format!("{path}[{}]", items.len());
            items.push(self.value(event, at, &path, depth + 1)?);
        }
    }

    fn section(&mut self, path: &str, depth: usize) -> Result<Vec<Entry>, Fault> {
        let mut entries = Vec::new();
        let mut first: BTreeMap<String, Mark> = BTreeMap::new();
        loop {
            let (event, at) = self.next()?;
            let name = match event {
                Event::MappingEnd => return Ok(entries),
                Event::Scalar(text, _, 0, None) => text.into_owned(),
                _ => return Err(self.fault(at, path, "a key must be plain text")),
            };
            let path = key(path, &name);
            let (event, value_at) = self.next()?;
            let value = self.value(event, value_at, &path, depth + 1)?;
            if let Some(before) = first.get(&name) {
                let text = format!(
                    "this key stands here a second time, first in line {}",
                    before.line
                );
                let fault = self.fault(at, &path, &text);
                self.faults.push(fault);
                continue;
            }
            first.insert(name.clone(), at);
            entries.push(Entry {
                name,
                mark: at,
                value,
            });
        }
    }
}
