//! A reading of Rust source that tells code, comments and string literals apart.
//!
//! Not a parser: it knows the lexical rules that matter to word searches and to counting braces
//! (nested comments, raw strings, characters against lifetimes) and nothing else.

use std::iter::Peekable;
use std::str::Chars;

/// Source with the same lines, of which only the code is left.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// The code; comments, strings and characters are blanks, line breaks are kept.
    pub code: String,
    /// Contents of the string literals, with the line they begin in, from 1.
    pub strings: Vec<(usize, String)>,
}

struct Reader<'t> {
    rest: Peekable<Chars<'t>>,
    line: usize,
    source: Source,
}

/// Splits `text`.
#[must_use]
pub fn read(text: &str) -> Source {
    let mut reader = Reader {
        rest: text.chars().peekable(),
        line: 1,
        source: Source::default(),
    };
    let mut before = ' ';
    while let Some(c) = reader.take() {
        reader.one(c, before);
        before = c;
    }
    reader.source
}

impl Reader<'_> {
    fn take(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    fn take_if(&mut self, wanted: char) -> bool {
        let found = self.rest.peek() == Some(&wanted);
        if found {
            self.take();
        }
        found
    }

    fn ahead(&self, count: usize) -> Option<char> {
        self.rest.clone().nth(count)
    }

    /// Leaves a blank in the code, or the line break itself.
    fn blank(&mut self, c: char) {
        self.source.code.push(if c == '\n' { '\n' } else { ' ' });
    }

    fn one(&mut self, c: char, before: char) {
        let word = before.is_alphanumeric() || before == '_';
        match (c, self.rest.peek().copied()) {
            ('/', Some('/')) => self.line_comment(),
            ('/', Some('*')) => self.block_comment(),
            ('"', _) => self.string(),
            ('r', Some('"' | '#')) if !word || before == 'b' || before == 'c' => self.raw_or_code(),
            ('\'', _) => self.character_or_lifetime(),
            _ => self.source.code.push(c),
        }
    }

    fn line_comment(&mut self) {
        self.blank(' ');
        while let Some(c) = self.take() {
            self.blank(c);
            if c == '\n' {
                break;
            }
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 1_usize;
        self.blank(' ');
        self.take();
        self.blank(' ');
        while depth > 0 {
            let Some(c) = self.take() else { return };
            self.blank(c);
            let opens = c == '/' && self.take_if('*');
            let closes = c == '*' && self.take_if('/');
            if opens || closes {
                self.blank(' ');
            }
            depth = depth + usize::from(opens) - usize::from(closes);
        }
    }

    fn string(&mut self) {
        let begin = self.line;
        let mut content = String::new();
        self.blank(' ');
        while let Some(c) = self.take() {
            self.blank(c);
            match c {
                '"' => break,
                '\\' => {
                    // What is escaped cannot end the string; `\n` and the like are white space.
                    if let Some(escaped) = self.take() {
                        self.blank(escaped);
                        content.push(if escaped == '"' { '"' } else { ' ' });
                    }
                }
                _ => content.push(c),
            }
        }
        self.source.strings.push((begin, content));
    }

    /// After an `r`: a raw string, or a raw identifier such as `r#type`.
    fn raw_or_code(&mut self) {
        let mut hashes = 0;
        while self.ahead(hashes) == Some('#') {
            hashes += 1;
        }
        if self.ahead(hashes) != Some('"') {
            self.source.code.push('r');
            return;
        }
        let begin = self.line;
        for _ in 0..=hashes {
            self.blank(' ');
            self.take();
        }
        self.blank(' ');
        let mut content = String::new();
        while let Some(c) = self.take() {
            self.blank(c);
            if c == '"' && (0..hashes).all(|index| self.ahead(index) == Some('#')) {
                for _ in 0..hashes {
                    self.take();
                    self.blank(' ');
                }
                break;
            }
            content.push(c);
        }
        self.source.strings.push((begin, content));
    }

    fn character_or_lifetime(&mut self) {
        let escaped = self.ahead(0) == Some('\\');
        if !escaped && self.ahead(1) != Some('\'') {
            self.source.code.push('\'');
            return;
        }
        self.blank(' ');
        if escaped {
            self.take();
            self.blank(' ');
        }
        // The character itself, then whatever belongs to it, up to the closing quote.
        let mut first = true;
        while let Some(c) = self.take() {
            self.blank(c);
            if c == '\'' && !first {
                break;
            }
            first = false;
        }
    }
}

/// The code without its inline tests: what follows `#[cfg(test)]` up to the end of that item is
/// blank.
#[must_use]
pub fn without_tests(code: &str) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some((before, after)) = rest.split_once("#[cfg(test)]") {
        kept.push_str(before);
        let (item, left) = split_item(after);
        kept.extend(item.chars().filter(|c| *c == '\n'));
        rest = left;
    }
    kept.push_str(rest);
    kept
}

/// The item at the head of `code`, up to its closing brace or its semicolon, and what follows.
fn split_item(code: &str) -> (&str, &str) {
    let mut depth = 0_usize;
    for (index, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && matches!(c, '}' | ';') {
            return code.split_at(index + 1);
        }
    }
    (code, "")
}

/// Whether `word` stands in `code` as a whole word.
#[must_use]
pub fn has_word(code: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let (before, rest) = code.split_at(at);
        let after = rest.get(word.len()..).unwrap_or("");
        !before.ends_with(part) && !after.starts_with(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_no_code() {
        let text = "let a = \"x{\"; // {\n/* { /* { */ { */ let b = '{'; let c = '\\''; \
                    let d = b'\"';\n\
                    let e = r#\"{\"{\"#; fn f<'a>(r#type: &'a str) {}";
        let source = read(text);
        assert_eq!(source.code.matches('{').count(), 1, "{}", source.code);
        assert_eq!(source.code.lines().count(), text.lines().count());
        assert!(source.code.contains("fn f<'a>(r#type: &'a str) {}"));
        let strings = [(1, "x{".to_owned()), (3, "{\"{".to_owned())];
        assert_eq!(source.strings, strings);
    }

    #[test]
    fn inline_tests_are_cut_and_lines_kept() {
        let code = "a\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nc\n#[cfg(test)]\nuse d;\ne\n";
        let kept = without_tests(code);
        assert_eq!(kept.lines().count(), code.lines().count());
        assert_eq!(kept.split_whitespace().collect::<String>(), "ace");
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("use civ_store::x;", "civ_store"));
        assert!(!has_word("use civ_store_x; my_civ_store", "civ_store"));
    }
}
