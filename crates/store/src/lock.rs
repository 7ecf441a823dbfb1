//! The file beside the database: who works on it, and up to when writes were answered.
//!
//! The note is written after each commit and costs no wait for the disk. It can only be older than
//! what was answered, never newer: a database that ends before it has lost something.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use civ_types::Utc;

use crate::error::OpenError;

/// Digits of a note: any number of microseconds has room, and a shorter one leaves nothing of a
/// longer one behind it.
const DIGITS: usize = 20;

/// The right to work on a database; the system takes it back however the process ends.
#[derive(Debug)]
pub(crate) struct Lock(File);

/// Where the one who writes notes up to when it has answered. Not the right itself: a thread that
/// is ending must not keep the next process out.
#[derive(Debug)]
pub(crate) struct Note {
    file: File,
    /// What stands in it.
    noted: Option<Utc>,
}

fn beside(path: &Path) -> PathBuf {
    path.with_added_extension("lock")
}

fn parse(text: &[u8]) -> Option<Utc> {
    let digits = std::str::from_utf8(text.get(..DIGITS)?).ok()?;
    digits.trim_start().parse().ok().map(Utc::from_micros)
}

fn read(file: &File) -> Option<Utc> {
    let mut text = [0; DIGITS];
    file.read_exact_at(&mut text, 0).ok()?;
    parse(&text)
}

/// Up to when writes to the database were answered, as far as is known; takes no lock.
pub(crate) fn noted_beside(path: &Path) -> Option<Utc> {
    read(&File::open(beside(path)).ok()?)
}

impl Lock {
    /// Makes sure that no other process works on the database: two orchestrators would each
    /// release what the other associates.
    pub(crate) fn take(path: &Path) -> Result<Self, OpenError> {
        let beside = beside(path);
        let failed = |source: io::Error| OpenError::Open {
            path: beside.clone(),
            source: source.into(),
        };
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&beside);
        let file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse {
                path: path.to_owned(),
            }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Up to when writes were answered, as far as is known.
    pub(crate) fn noted(&self) -> Option<Utc> {
        read(&self.0)
    }

    /// Where to note the same from another thread.
    pub(crate) fn pen(path: &Path) -> io::Result<Note> {
        let file = File::options().read(true).write(true).open(beside(path));
        file.map(|file| Note {
            noted: read(&file),
            file,
        })
    }

    /// What is noted holds no longer: another database is put in place.
    pub(crate) fn forget(&self) -> io::Result<()> {
        forget(&self.0)
    }
}

fn forget(file: &File) -> io::Result<()> {
    file.set_len(0)?;
    file.sync_all()
}

impl Note {
    /// A commit at `at` is about to be made. If the clock was set back, the note would call that
    /// very commit a loss; it is gone from the disk before it.
    pub(crate) fn make_way(&mut self, at: Utc) {
        if self.noted.is_some_and(|noted| at < noted) {
            drop(forget(&self.file));
            self.noted = None;
        }
    }

    /// Writes up to `at` are answered from here on. If it cannot be noted, less is noticed; that is
    /// no reason to refuse a write that is on the disk.
    pub(crate) fn write(&mut self, at: Utc) {
        let text = format!("{:>DIGITS$}\n", at.as_micros());
        drop(self.file.write_all_at(text.as_bytes(), 0));
        self.noted = Some(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_note_is_read_by_anybody_until_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.db");
        assert_eq!(noted_beside(&path), None);
        let lock = Lock::take(&path).unwrap();
        assert_eq!(lock.noted(), None);
        for micros in [1_764_560_000_000_000, 7, -7] {
            Lock::pen(&path).unwrap().write(Utc::from_micros(micros));
            assert_eq!(noted_beside(&path), Some(Utc::from_micros(micros)));
        }
        assert!(matches!(Lock::take(&path), Err(OpenError::InUse { .. })));
        lock.forget().unwrap();
        assert_eq!(lock.noted(), None);
        drop(lock);
        std::fs::write(beside(&path), "something else altogether").unwrap();
        assert_eq!(Lock::take(&path).unwrap().noted(), None);
    }

    #[test]
    fn a_commit_of_before_the_note_finds_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.db");
        let _lock = Lock::take(&path).unwrap();
        let mut pen = Lock::pen(&path).unwrap();
        pen.write(Utc::from_micros(7));
        pen.make_way(Utc::from_micros(7));
        assert_eq!(noted_beside(&path), Some(Utc::from_micros(7)));
        pen.make_way(Utc::from_micros(6));
        assert_eq!(noted_beside(&path), None);
    }
}
