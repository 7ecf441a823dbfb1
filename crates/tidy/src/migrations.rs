//! Migrations: named `NNNN_verb_noun.sql` without gaps, and never edited once landed.
//!
//! `migrations/HASHES` holds a line of `sha256sum` for each file; after adding a migration, add its
//! line: `cd migrations && sha256sum NNNN_verb_noun.sql >> HASHES`. A landed line is never changed.

/// One migration: its file name and the SHA-256 of its bytes in lower-case hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// File name without folder.
    pub name: String,
    /// 64 digits.
    pub sha256: String,
}

/// What is wrong with the migrations, which are in order of their names, or with their list.
#[must_use]
pub fn check(files: &[Migration], hashes: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let name = &file.name;
        let number = format!("{:04}_", index + 1);
        if !(name.starts_with(&number) && well_named(name)) {
            wrong.push(format!("{name}: must be {number}verb_noun.sql"));
        }
    }
    let listed: Vec<Migration> = hashes.lines().filter_map(line).collect();
    if listed.len() != hashes.lines().count() {
        wrong.push("HASHES: a line is not one of sha256sum".to_owned());
    }
    for file in files {
        let name = &file.name;
        match listed.iter().filter(|other| other.name == *name).count() {
            1 if listed.contains(file) => {}
            1 => wrong.push(format!(
                "{name}: has been changed since it landed: write a new migration"
            )),
            0 => wrong.push(format!("{name}: is not in HASHES")),
            _ => wrong.push(format!("{name}: stands in HASHES more than once")),
        }
    }
    for other in &listed {
        if !files.iter().any(|file| file.name == other.name) {
            wrong.push(format!("{}: has landed and is gone", other.name));
        }
    }
    wrong
}

/// Four digits, then at least two words of lower-case letters and digits.
fn well_named(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".sql") else {
        return false;
    };
    let mut parts = stem.split('_');
    let number = parts.next().unwrap_or_default();
    let words: Vec<&str> = parts.collect();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    number.len() == 4
        && number.chars().all(|c| c.is_ascii_digit())
        && words.len() >= 2
        && words
            .iter()
            .all(|word| !word.is_empty() && word.chars().all(plain))
}

fn line(text: &str) -> Option<Migration> {
    let (sha256, name) = text.split_once("  ")?;
    let hash = sha256.len() == 64 && sha256.chars().all(|c| c.is_ascii_hexdigit());
    hash.then(|| Migration {
        name: name.to_owned(),
        sha256: sha256.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migration(name: &str, digit: &str) -> Migration {
        Migration {
            name: name.to_owned(),
            sha256: digit.repeat(64),
        }
    }

    fn landed(files: &[Migration]) -> String {
        let line = |file: &Migration| format!("{}  {}\n", file.sha256, file.name);
        files.iter().map(line).collect()
    }

    #[test]
    fn landed_migrations_pass() {
        let files = [
            migration("0001_create_tables.sql", "a"),
            migration("0002_add_site_index.sql", "b"),
        ];
        assert!(check(&files, &landed(&files)).is_empty());
        assert!(check(&[], "").is_empty());
    }

    #[test]
    fn an_edit_a_gap_a_loss_and_a_bad_name_are_found() {
        let files = [migration("0001_create_tables.sql", "a")];
        let hashes = landed(&files);
        let edited = [migration("0001_create_tables.sql", "b")];
        let gap = [migration("0002_create_tables.sql", "a")];
        let unnamed = [migration("0001_tables.sql", "a")];
        assert_eq!(check(&edited, &hashes).len(), 1);
        assert_eq!(check(&[], &hashes).len(), 1);
        assert_eq!(check(&files, "").len(), 1);
        assert_eq!(check(&files, &hashes.repeat(2)).len(), 1);
        assert_eq!(check(&gap, &landed(&gap)).len(), 1);
        assert_eq!(check(&unnamed, &landed(&unnamed)).len(), 1);
        assert_eq!(check(&files, &format!("{hashes}nonsense\n")).len(), 1);
    }
}
