//! Foreign text made fit for a message: one line, bounded.

/// Longest piece of a foreign answer that a message quotes, in characters.
const CHARS_MAX: usize = 300;

/// `text` on one line, without control characters, cut after 300 characters.
pub(crate) fn clip(text: &str) -> String {
    let spaced = text.split(|c: char| c.is_whitespace() || c.is_control());
    let mut line = String::new();
    for word in spaced.filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.chars().count() > CHARS_MAX {
            return line.chars().take(CHARS_MAX).chain(['…']).collect();
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::clip;

    #[test]
    fn a_message_is_one_bounded_line() {
        assert_eq!(clip("a\n\tb\u{7} c"), "a b c");
        assert_eq!(clip(&"é".repeat(5_000)).chars().count(), 301);
    }
}
