//! The one way to standard output and standard error: whole texts, and a closed pipe as the
//! ordinary end that it is.

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal as _, Write as _};

use civ_boot::chain::Chain;
use civ_boot::secrets::Environment;

use super::client::Answer;
use super::error::{CtlError, Result};

/// Clears the terminal and begins at its top (ECMA-48).
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Begins the line again and clears it.
const LINE_AGAIN: &str = "\r\x1b[2K";

/// How to write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    /// Answers as they came.
    pub(super) json: bool,
    /// Colours may be used.
    pub(super) colours: bool,
    /// Standard output is a terminal: lines may be written over.
    pub(super) terminal: bool,
}

impl Output {
    pub(super) fn new(json: bool, environment: &dyn Environment) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let is = |name, test: fn(&str) -> bool| {
            let value = environment.get(name).ok().flatten();
            value.is_some_and(|value| test(&value))
        };
        // https://no-color.org: any value but the empty one.
        let plain = is("NO_COLOR", |value| !value.is_empty()) || is("TERM", |term| term == "dumb");
        Self {
            json,
            colours: terminal && !plain,
            terminal: terminal && !is("TERM", |term| term == "dumb"),
        }
    }

    /// The answer as it came with `--json`, else what `text` makes of it.
    pub(super) fn answer(
        &self,
        answer: &Answer,
        text: impl FnOnce(&Answer) -> Result<String>,
    ) -> Result<()> {
        if self.json {
            return as_it_came(answer);
        }
        write(&text(answer)?)
    }

    /// A text that stands in the place of the one before, where there is a terminal.
    pub(super) fn again(&self, text: &str) -> Result<()> {
        let before = if self.terminal { CLEAR } else { "" };
        write(&format!("{before}{text}"))
    }

    /// A line that the next one may write over. Only for terminals.
    pub(super) fn progress(text: &str) -> Result<()> {
        write_bytes(format!("{LINE_AGAIN}{text}").as_bytes())
    }
}

/// The answer, and a line break if it has none.
pub(super) fn as_it_came(answer: &Answer) -> Result<()> {
    let mut bytes = answer.body.clone();
    if !bytes.ends_with(b"\n") {
        bytes.push(b'\n');
    }
    write_bytes(&bytes)
}

/// Writes a text of whole lines.
pub(super) fn write(text: &str) -> Result<()> {
    if text.is_empty() || text.ends_with('\n') {
        return write_bytes(text.as_bytes());
    }
    write_bytes(format!("{text}\n").as_bytes())
}

/// Writes bytes as they are.
pub(super) fn raw(bytes: &[u8]) -> Result<()> {
    write_bytes(bytes)
}

fn write_bytes(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => CtlError::Closed,
        _ => CtlError::Output(error),
    })
}

/// Tells on standard error what went wrong.
pub(super) fn complain(error: &CtlError) {
    note(format_args!("control-api ctl: {}", Chain(error)));
}

/// A line on standard error; if nobody can read it, there is nobody to tell either.
pub(super) fn note(line: impl Display) {
    drop(writeln!(std::io::stderr(), "{line}"));
}
