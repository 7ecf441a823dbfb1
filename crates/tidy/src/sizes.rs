//! Sizes: lines of a function, lines of a file without its tests, columns.

use crate::places::Text;
use crate::source::{has_word, read, without_tests};

/// Most lines of a function, signature and closing brace included.
pub const FUNCTION_LINES_MAX: usize = 70;
/// Most lines of a file without its inline tests.
pub const FILE_LINES_MAX: usize = 600;
/// Most columns of a line, in characters.
pub const COLUMNS_MAX: usize = 100;

/// What is too large in one file.
#[must_use]
pub fn check(file: &Text) -> Vec<String> {
    let code = read(&file.text).code;
    let mut found = wide_lines(file, &code);
    let lines = file_lines(&file.text, &code);
    if lines > FILE_LINES_MAX && !file.path.contains("/tests/") {
        let path = &file.path;
        found.push(format!(
            "{path}: {lines} lines without its tests, at most {FILE_LINES_MAX}"
        ));
    }
    for (name, line, lines) in functions(&code) {
        if lines > FUNCTION_LINES_MAX {
            let path = &file.path;
            found.push(format!(
                "{path}:{line}: fn {name} has {lines} lines, at most {FUNCTION_LINES_MAX}"
            ));
        }
    }
    found
}

/// Lines of a literal that is quoted word for word over several lines may be as wide as they are.
fn wide_lines(file: &Text, code: &str) -> Vec<String> {
    let quoted = |line: &str, code: &str| {
        !line.trim_start().starts_with("//") && !code.contains(char::is_alphanumeric)
    };
    let lines = file.text.lines().zip(code.lines()).enumerate();
    let wide =
        lines.filter(|(_, (line, code))| line.chars().count() > COLUMNS_MAX && !quoted(line, code));
    wide.map(|(index, _)| {
        let path = &file.path;
        format!("{path}:{}: wider than {COLUMNS_MAX} columns", index + 1)
    })
    .collect()
}

/// Lines of the file, less those of inline tests.
fn file_lines(text: &str, code: &str) -> usize {
    let kept = without_tests(code);
    let cut = code
        .lines()
        .zip(kept.lines())
        .filter(|(before, after)| before != after)
        .count();
    text.lines().count().saturating_sub(cut)
}

/// Name, first line and number of lines of every function with a body.
fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some((before, after)) = line.split_once("fn ") else {
            continue;
        };
        let name: String = after
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let declares = has_word(line, "fn") && !before.ends_with(|c: char| c.is_alphanumeric());
        if name.is_empty() || !declares {
            continue;
        }
        if let Some(length) = body_lines(lines.get(index..).unwrap_or_default()) {
            found.push((name, index + 1, length));
        }
    }
    found
}

/// Lines up to the brace that closes the first one; `None` if a semicolon comes first.
fn body_lines(lines: &[&str]) -> Option<usize> {
    let (mut depth, mut brackets) = (0_usize, 0_usize);
    for (index, line) in lines.iter().enumerate() {
        for c in line.chars() {
            match c {
                '{' => depth += 1,
                '}' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return Some(index + 1);
                    }
                }
                '[' | '(' => brackets += 1,
                ']' | ')' => brackets = brackets.saturating_sub(1),
                ';' if depth == 0 && brackets == 0 => return None,
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        check(&Text {
            path: "crates/x/src/lib.rs".to_owned(),
            text: text.to_owned(),
        })
    }

    #[test]
    fn a_long_function_is_found_and_a_trait_method_without_body_is_not() {
        let body = "    work();\n".repeat(69);
        let text = format!("trait T {{\n fn a(x: [u8; 4]);\n}}\nfn b() {{\n{body}}}\n");
        assert_eq!(
            found(&text),
            ["crates/x/src/lib.rs:4: fn b has 71 lines, at most 70"]
        );
    }

    #[test]
    fn a_long_file_is_found_but_its_tests_do_not_count() {
        let long = "use a;\n".repeat(601);
        assert_eq!(found(&long).len(), 1);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{long}}}\n");
        assert!(found(&tests).is_empty());
    }

    #[test]
    fn a_wide_line_is_found() {
        assert_eq!(found(&format!("// {}", "x".repeat(98))).len(), 1);
        assert!(found(&format!("// {}", "x".repeat(97))).is_empty());
        let quoted = format!("const A: &str = r\"\n{}\";\n", "x".repeat(98));
        assert!(found(&quoted).is_empty());
        assert_eq!(found(&format!("let a = \"{}\";", "x".repeat(98))).len(), 1);
    }
}
