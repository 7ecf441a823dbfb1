//! An error with its sources in one line: what happened, and why, and why that.

use std::error::Error;
use std::fmt;

/// Displays an error and its sources, joined by `: `. Made where an error is handled, once.
#[derive(Debug, Clone, Copy)]
pub struct Chain<'e>(pub &'e (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = line(self.0);
        f.write_str(&said)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            let text = line(error);
            // Some foreign errors display their source themselves: once is enough.
            if !said.ends_with(&text) {
                write!(f, ": {text}")?;
            }
            said = text;
            source = error.source();
        }
        Ok(())
    }
}

/// Line breaks become spaces: one failure is one line of the log.
fn line(error: &dyn Error) -> String {
    error.to_string().replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open\nthe door")]
    struct Door(#[source] fmt::Error);

    #[test]
    fn sources_follow_in_one_line() {
        let error = Door(fmt::Error);
        let inner = fmt::Error.to_string();
        assert_eq!(
            Chain(&error).to_string(),
            format!("cannot open the door: {inner}")
        );
    }

    #[derive(Debug, thiserror::Error)]
    #[error("cannot go out: {0}")]
    struct Repeating(#[source] Door);

    #[test]
    fn a_source_that_was_displayed_already_is_not_repeated() {
        let error = Repeating(Door(fmt::Error));
        let inner = fmt::Error.to_string();
        assert_eq!(
            Chain(&error).to_string(),
            format!("cannot go out: cannot open the door: {inner}")
        );
    }
}
