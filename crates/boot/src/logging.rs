//! The log: lines on standard error, times in RFC 3339 UTC with microseconds.
//!
//! `CIV_LOG` filters (`info` without it; `warn,civ_store=debug` and the like), `CIV_LOG_FORMAT` is
//! `text` or `json`.

use std::fmt;
use std::io::{IsTerminal as _, Write};

use civ_types::{Clock as _, SystemClock};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::secrets::{Environment, SecretError};

/// Variable with the filter.
pub const FILTER_ENV: &str = "CIV_LOG";

/// Variable with the format.
pub const FORMAT_ENV: &str = "CIV_LOG_FORMAT";

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// `CIV_LOG` does not parse.
    #[error("{FILTER_ENV} must be a filter such as info or warn,civ_store=debug")]
    Filter(#[source] tracing_subscriber::filter::ParseError),
    /// `CIV_LOG_FORMAT` is another word.
    #[error("{FORMAT_ENV} must be text or json")]
    Format,
    /// A variable is not UTF-8.
    #[error(transparent)]
    Environment(#[from] SecretError),
    /// A second set-up in one process.
    #[error("logging has been set up already")]
    Twice(#[source] Box<dyn std::error::Error + Send + Sync>),
}

struct Micros;

impl FormatTime for Micros {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        write!(w, "{}", SystemClock.now())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Json,
}

fn format(environment: &dyn Environment) -> Result<Format, LoggingError> {
    match environment.get(FORMAT_ENV)?.as_deref() {
        None | Some("" | "text") => Ok(Format::Text),
        Some("json") => Ok(Format::Json),
        Some(_) => Err(LoggingError::Format),
    }
}

fn filter(environment: &dyn Environment) -> Result<EnvFilter, LoggingError> {
    let text = environment.get(FILTER_ENV)?.unwrap_or_default();
    let text = if text.trim().is_empty() {
        "info"
    } else {
        &text
    };
    EnvFilter::try_new(text).map_err(LoggingError::Filter)
}

/// The subscriber for `writer`; colours only for text on a terminal.
fn subscriber<W>(
    environment: &dyn Environment,
    writer: W,
    colours: bool,
) -> Result<Box<dyn tracing::Subscriber + Send + Sync>, LoggingError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(environment)?)
        .with_timer(Micros)
        .with_writer(writer)
        .with_ansi(colours);
    Ok(match format(environment)? {
        Format::Text => Box::new(builder.finish()),
        Format::Json => Box::new(builder.json().flatten_event(true).finish()),
    })
}

/// Sets up logging for this process, once.
///
/// # Errors
/// [`LoggingError`] for a bad `CIV_LOG` or `CIV_LOG_FORMAT`, or a second call.
pub fn init(environment: &dyn Environment) -> Result<(), LoggingError> {
    let colours = std::io::stderr().is_terminal();
    let subscriber = subscriber(environment, std::io::stderr, colours)?;
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|error| LoggingError::Twice(Box::new(error)))
}

/// Writes one line to standard error, also where logging is not set up; a closed standard error is
/// no reason to fail.
pub(crate) fn say(line: impl fmt::Display) {
    drop(writeln!(std::io::stderr(), "{line}"));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{Read as _, Seek as _};

    use super::*;

    #[expect(
        clippy::unwrap_in_result,
        reason = "only the error under test is returned"
    )]
    /// What one event with a field and one below `info` leave in the log.
    fn logged(environment: &[(&str, &str)]) -> Result<String, LoggingError> {
        let table: BTreeMap<String, String> = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let mut file = tempfile::tempfile().expect("a temporary file");
        let writer = file.try_clone().expect("a second handle of it");
        let subscriber = subscriber(&table, writer, false)?;
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(ip = "203.0.113.10", "claimed");
            tracing::debug!("hidden");
        });
        let mut text = String::new();
        file.rewind().expect("rewound");
        file.read_to_string(&mut text).expect("UTF-8");
        Ok(text)
    }

    #[test]
    fn text_lines_begin_with_the_time_in_microseconds() {
        let text = logged(&[]).unwrap();
        let time = text.split_whitespace().next().unwrap();
        assert_eq!(time.len(), "2026-08-21T09:15:00.123456Z".len(), "{text}");
        assert!(civ_types::Utc::parse(time).is_ok(), "{text}");
        assert!(text.contains("claimed") && !text.contains("hidden"));
    }

    #[test]
    fn json_lines_have_flat_fields() {
        let text = logged(&[(FORMAT_ENV, "json")]).unwrap();
        assert!(text.contains(r#""ip":"203.0.113.10""#), "{text}");
        assert!(text.contains(r#""message":"claimed""#), "{text}");
    }

    #[test]
    fn the_filter_is_obeyed_and_a_bad_word_refused() {
        assert_eq!(logged(&[(FILTER_ENV, "warn")]).unwrap(), "");
        assert!(logged(&[(FILTER_ENV, "debug")]).unwrap().contains("hidden"));
        assert!(matches!(
            logged(&[(FILTER_ENV, "civ=loud=er")]),
            Err(LoggingError::Filter(_))
        ));
        assert!(matches!(
            logged(&[(FORMAT_ENV, "xml")]),
            Err(LoggingError::Format)
        ));
    }
}
