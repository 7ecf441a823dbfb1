//! The document of figures: every bench owns a marked section of it and leaves the others alone.

use std::path::Path;

use anyhow::{Context as _, Result};

/// Puts `text` into the section `name` of the file, in place of what stands there.
pub(crate) fn replace(path: &Path, name: &str, text: &str) -> Result<()> {
    let old = match std::fs::read_to_string(path) {
        Ok(old) => old,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).context("the document cannot be read"),
    };
    std::fs::write(path, with_section(&old, name, text)).context("the document cannot be written")
}

fn with_section(old: &str, name: &str, text: &str) -> String {
    let (begin, end) = (
        format!("<!-- {name} -->"),
        format!("<!-- end of {name} -->"),
    );
    let section = format!("{begin}\n{}\n{end}\n", text.trim_end());
    let parts = old.split_once(&begin);
    let parts = parts.and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    match parts {
        Some((before, after)) => format!("{before}{section}{}", after.trim_start_matches('\n')),
        None if old.trim().is_empty() => format!("# Performance\n\n{section}"),
        None => format!("{}\n\n{section}", old.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_and_others_stay() {
        let one = with_section("", "one", "first");
        let both = with_section(&one, "two", "second\n");
        let again = with_section(&both, "one", "third");
        assert!(again.starts_with("# Performance\n\n<!-- one -->\nthird\n<!-- end of one -->\n"));
        assert!(again.contains("<!-- two -->\nsecond\n<!-- end of two -->\n"));
        assert!(!again.contains("first"));
        assert_eq!(with_section(&again, "two", "second"), again);
    }
}
