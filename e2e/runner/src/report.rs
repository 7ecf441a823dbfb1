//! Owns what the runner says: one line per scenario, the table, the JUnit file, the last line.

use std::fmt::{self, Write as _};
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

/// Prints a line; a reader that went away is no reason to fail.
pub(crate) fn say(line: impl fmt::Display) {
    drop(writeln!(io::stdout(), "{line}"));
}

/// How a scenario ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Story and audit held; the text is what there is to tell.
    Passed(String),
    /// Something did not hold; the text says what.
    Failed(String),
    /// This ground cannot carry it; the text says why.
    LeftOut(String),
}

/// One row of the table.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// The scenario.
    pub(crate) name: String,
    /// How it ended.
    pub(crate) verdict: Verdict,
    /// From its start to the end of its audit.
    pub(crate) took: Duration,
}

impl Row {
    fn word(&self) -> &'static str {
        match self.verdict {
            Verdict::Passed(_) => "passed",
            Verdict::Failed(_) => "FAILED",
            Verdict::LeftOut(_) => "left out",
        }
    }

    fn remark(&self) -> &str {
        match &self.verdict {
            Verdict::Passed(text) | Verdict::Failed(text) | Verdict::LeftOut(text) => text,
        }
    }

    /// The line that is printed while the run goes on.
    pub(crate) fn line(&self) -> String {
        let seconds = self.took.as_secs_f64();
        let first = self.remark().lines().next().unwrap_or_default();
        let name = &self.name;
        format!("{:8} {name:18} {seconds:6.1} s  {first}", self.word())
    }
}

/// All rows of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    note: String,
}

impl Report {
    /// With a sentence under the table: what this ground leaves out of every scenario.
    pub(crate) fn with_note(note: String) -> Self {
        Self {
            note,
            ..Self::default()
        }
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    fn count(&self, word: &str) -> usize {
        self.rows.iter().filter(|row| row.word() == word).count()
    }

    /// Whether nothing was played.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether nothing failed.
    pub(crate) fn all_passed(&self) -> bool {
        self.count("FAILED") == 0
    }

    /// The table, with every remark in full, and `N passed, N failed` as its last line.
    pub(crate) fn table(&self) -> String {
        let names = self.rows.iter().map(|row| row.name.len());
        let wide = names.max().unwrap_or_default().max(18);
        let mut text = format!(
            "\n{:wide$} {:8} {:>8}  remark\n{}\n",
            "scenario",
            "result",
            "seconds",
            "-".repeat(60 + wide)
        );
        for row in &self.rows {
            let mut lines = row.remark().lines();
            let first = lines.next().unwrap_or_default();
            let seconds = row.took.as_secs_f64();
            let (name, word) = (&row.name, row.word());
            text.push_str(&format!("{name:wide$} {word:8} {seconds:8.1}  {first}\n"));
            for line in lines {
                text.push_str(&format!("{:1$}{line}\n", "", wide + 20));
            }
        }
        let left_out = self.count("left out");
        if left_out > 0 {
            text.push_str(&format!("{left_out} left out on this ground\n"));
        }
        if !self.note.is_empty() {
            text.push_str(&format!("{}\n", self.note));
        }
        let (passed, failed) = (self.count("passed"), self.count("FAILED"));
        text.push_str(&format!("{passed} passed, {failed} failed\n"));
        text
    }

    /// Writes the JUnit file.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(crate) fn write_junit(&self, file: &Path) -> Result<()> {
        fs::write(file, self.junit()?)
            .with_context(|| format!("{} cannot be written", file.display()))
    }

    fn junit(&self) -> Result<String> {
        let time: f64 = self.rows.iter().map(|row| row.took.as_secs_f64()).sum();
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        writeln!(
            xml,
            "<testsuite name=\"e2e\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" \
             time=\"{time:.3}\">",
            self.rows.len(),
            self.count("FAILED"),
            self.count("left out"),
        )?;
        for row in &self.rows {
            let (name, text) = (escape(&row.name), escape(row.remark()));
            let seconds = row.took.as_secs_f64();
            writeln!(
                xml,
                "  <testcase classname=\"e2e\" name=\"{name}\" time=\"{seconds:.3}\">"
            )?;
            match row.verdict {
                Verdict::Passed(_) => writeln!(xml, "    <system-out>{text}</system-out>")?,
                Verdict::Failed(_) => writeln!(xml, "    <failure message=\"{text}\"/>")?,
                Verdict::LeftOut(_) => writeln!(xml, "    <skipped message=\"{text}\"/>")?,
            }
            writeln!(xml, "  </testcase>")?;
        }
        writeln!(xml, "</testsuite>")?;
        Ok(xml)
    }
}

/// Text as XML wants it in content and in attributes; control characters have no form there.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::default();
        for (name, verdict) in [
            ("one", Verdict::Passed("12 addresses".to_owned())),
            ("two", Verdict::Failed("a < b\nand \u{1} more".to_owned())),
            ("three", Verdict::LeftOut("needs NAT".to_owned())),
        ] {
            report.add(Row {
                name: name.to_owned(),
                verdict,
                took: Duration::from_millis(1500),
            });
        }
        report
    }

    #[test]
    fn the_last_line_counts() {
        assert_eq!(report().table().lines().last(), Some("1 passed, 1 failed"));
    }

    #[test]
    fn junit_escapes_and_counts() {
        let xml = report().junit().unwrap();
        assert!(
            xml.contains("tests=\"3\" failures=\"1\" skipped=\"1\""),
            "{xml}"
        );
        assert!(xml.contains("a &lt; b&#10;and \u{fffd} more"), "{xml}");
    }
}
