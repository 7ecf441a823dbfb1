//! Where the files of the workspace are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders that hold no source of ours, by name.
const NOT_OURS: &[&str] = &["target", ".git", "data", "node_modules", "snapshots"];

/// One file and its text.
#[derive(Debug, Clone)]
pub struct Text {
    /// Relative to the root, with `/`.
    pub path: String,
    /// All of it.
    pub text: String,
}

/// The root of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package).to_owned()
}

/// All files with this extension, in order of their paths.
///
/// # Errors
/// If a folder or file cannot be read, or is not UTF-8.
pub fn files(extension: &str) -> io::Result<Vec<Text>> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let path = entry.path();
            let name = entry.file_name();
            if entry.file_type()?.is_dir() {
                if !NOT_OURS.iter().any(|other| name == *other) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|other| other == extension) {
                found.push(Text {
                    text: fs::read_to_string(&path)?,
                    path: relative(&root, &path),
                });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn relative(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    path.to_string_lossy().into_owned()
}
