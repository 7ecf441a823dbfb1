//! One fault of a configuration file, and all of them together.

use std::fmt;

/// Line and column, both from 1. A file that could not be read has no places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// What is wrong, where, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    file: String,
    mark: Option<Mark>,
    path: String,
    text: String,
}

impl Fault {
    pub(super) fn new(file: &str, mark: Mark, path: &str, text: String) -> Self {
        Self {
            file: file.to_owned(),
            mark: Some(mark),
            path: path.to_owned(),
            text,
        }
    }

    /// A fault of the file as a whole.
    pub(super) fn of_file(file: &str, text: String) -> Self {
        Self {
            file: file.to_owned(),
            mark: None,
            path: String::new(),
            text,
        }
    }

    /// The key's full path, such as `validators[2].os_port_id`; empty for the file as a whole.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Line, from 1; `None` for the file as a whole.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.mark.map(|mark| mark.line)
    }

    /// Column in characters, from 1; `None` for the file as a whole.
    #[must_use]
    pub fn column(&self) -> Option<usize> {
        self.mark.map(|mark| mark.column)
    }

    /// What is wrong and what is allowed, without the place.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    fn order(&self) -> (Option<Mark>, &str) {
        (self.mark, &self.path)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(mark) = self.mark {
            write!(f, ":{}:{}", mark.line, mark.column)?;
        }
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        write!(f, ": {}", self.text)
    }
}

/// All faults of a file in the order of the file; never empty. Displayed one a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    pub(super) fn one(fault: Fault) -> Self {
        Self(vec![fault])
    }

    /// `None` if there is none.
    pub(super) fn of(mut faults: Vec<Fault>) -> Option<Self> {
        faults.sort_by(|a, b| a.order().cmp(&b.order()));
        (!faults.is_empty()).then_some(Self(faults))
    }

    /// In the order of the file.
    pub fn iter(&self) -> std::slice::Iter<'_, Fault> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Faults {
    type Item = &'a Fault;
    type IntoIter = std::slice::Iter<'a, Fault>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
