//! Findings, and how they are printed: each at once, or all as one JSON document.

use std::io::Write as _;

use serde::Serialize;

/// How one thing was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// As it should be.
    Ok,
    /// It is not there.
    Missing,
    /// It could not be had, or is not as it should be.
    Failed,
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::Failed => "failed",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    check: String,
    state: State,
    /// What was seen.
    text: String,
    /// What to do, or what follows from it.
    #[serde(skip_serializing_if = "String::is_empty")]
    remedy: String,
    /// Whether the product cannot work like that.
    blocks: bool,
}

impl Finding {
    pub(super) fn ok(check: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            check: check.into(),
            state: State::Ok,
            text: text.into(),
            remedy: String::new(),
            blocks: false,
        }
    }

    /// Not as it should be, and in the way.
    pub(super) fn failed(
        check: impl Into<String>,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            state: State::Failed,
            remedy: remedy.into(),
            blocks: true,
            ..Self::ok(check, text)
        }
    }

    /// Not there, and in the way.
    pub(super) fn missing(
        check: impl Into<String>,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            state: State::Missing,
            ..Self::failed(check, text, remedy)
        }
    }

    /// Not there, but the product works without it.
    pub(super) fn does_without(
        check: impl Into<String>,
        text: impl Into<String>,
        consequence: impl Into<String>,
    ) -> Self {
        Self {
            blocks: false,
            ..Self::missing(check, text, consequence)
        }
    }

    fn line(&self) -> String {
        let (word, check) = (self.state.word(), &self.check);
        let mut line = format!("{word:<8} {check}: {}", self.text);
        if !self.remedy.is_empty() {
            line.push_str(" -- ");
            line.push_str(&self.remedy);
        }
        line
    }
}

/// All findings of a run.
#[derive(Debug)]
pub(super) struct Report {
    findings: Vec<Finding>,
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    fit: bool,
    findings: &'a [Finding],
}

impl Report {
    pub(super) const fn new(json: bool) -> Self {
        Self {
            findings: Vec::new(),
            json,
        }
    }

    /// Adds a finding and, as a line, prints it at once: the next one may take a minute.
    pub(super) fn add(&mut self, finding: Finding) {
        if !self.json {
            print(&finding.line());
        }
        self.findings.push(finding);
    }

    /// Whether nothing is in the way.
    pub(super) fn is_fit(&self) -> bool {
        !self.findings.iter().any(|finding| finding.blocks)
    }

    /// Prints what is to be printed at the end.
    pub(super) fn close(&self) {
        if self.json {
            let document = Document {
                fit: self.is_fit(),
                findings: &self.findings,
            };
            // Texts and truths alone: there is nothing in it that JSON could not write.
            print(&serde_json::to_string_pretty(&document).unwrap_or_default());
            return;
        }
        let n = self.findings.iter().filter(|one| one.blocks).count();
        print(&match n {
            0 => "The cloud is as it should be.".to_owned(),
            n => format!("In the way: {n}."),
        });
    }
}

/// A reader that has gone away is no reason to end with an error.
fn print(line: &str) {
    drop(writeln!(std::io::stdout().lock(), "{line}"));
}
