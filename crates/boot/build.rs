//! Finds the commit for `--version`: from the variable `CIV_COMMIT` (packages, containers), else
//! from the repository's own files, else `unknown`. Neither network nor a git command is needed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells a build script by the environment"
)]
fn main() {
    println!("cargo::rerun-if-env-changed=CIV_COMMIT");
    let given = env::var("CIV_COMMIT").ok().filter(|text| is_hash(text));
    let commit = given.or_else(from_repository);
    let short: String = commit.map_or_else(
        || "unknown".to_owned(),
        |hash| hash.chars().take(12).collect(),
    );
    println!("cargo::rustc-env=CIV_COMMIT={short}");
}

fn is_hash(text: &str) -> bool {
    text.len() >= 7 && text.chars().all(|c| c.is_ascii_hexdigit())
}

fn from_repository() -> Option<String> {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    let dot_git = package.ancestors().nth(2)?.join(".git");
    let folder = git_folder(&dot_git)?;
    let head = read(&folder.join("HEAD"))?;
    let Some(name) = head.strip_prefix("ref: ") else {
        return is_hash(&head).then_some(head);
    };
    // Branches of a linked work tree lie in the main repository.
    let common = read(&folder.join("commondir"));
    let common = common.map_or_else(|| folder.clone(), |path| folder.join(path));
    let loose = read(&common.join(name));
    let hash = loose.or_else(|| packed(&common.join("packed-refs"), name))?;
    is_hash(&hash).then_some(hash)
}

/// `.git` itself, or the folder that a `.git` file of a linked work tree names.
fn git_folder(dot_git: &Path) -> Option<PathBuf> {
    if dot_git.is_dir() {
        return Some(dot_git.to_owned());
    }
    let named = read(dot_git)?;
    let path = named.strip_prefix("gitdir: ")?;
    Some(dot_git.parent()?.join(path))
}

fn packed(file: &Path, name: &str) -> Option<String> {
    let text = read(file)?;
    let line = text.lines().find(|line| line.ends_with(name))?;
    let (hash, found) = line.split_once(' ')?;
    (found == name).then(|| hash.to_owned())
}

/// The file's text without white space around it; cargo looks again when the file changes.
fn read(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    println!("cargo::rerun-if-changed={}", file.display());
    Some(text.trim().to_owned())
}
