//! How far a copy is, on standard error: over one line of a terminal, else a line for each tenth.

use std::io::{IsTerminal as _, Write as _};
use std::ops::ControlFlow;

use civ_store::backup::Stage;

use super::{bytes, note};

/// Tenths of a copy are told once each; a small copy has none but the last.
const PARTS: u64 = 10;

pub(super) struct Progress {
    is_terminal: bool,
    told: u64,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            is_terminal: std::io::stderr().is_terminal(),
            told: 0,
        }
    }

    /// Never asks to stop: that is what signals are for, and they leave nothing behind but a hidden
    /// file that a later copy of the same name removes.
    pub(super) fn tell(&mut self, stage: Stage) -> ControlFlow<()> {
        match stage {
            Stage::Copying { done, total } => {
                let part = done * PARTS / total.max(1);
                if part > self.told || done == total {
                    self.told = part;
                    let percent = done * 100 / total.max(1);
                    self.line(&format!("copied {percent} % of {}", bytes(total)));
                }
            }
            Stage::Verifying => self.line("reading the copy back"),
        }
        ControlFlow::Continue(())
    }

    fn line(&self, text: &str) {
        if self.is_terminal {
            drop(write!(std::io::stderr().lock(), "\r\x1b[K{text}"));
        } else {
            note(text);
        }
    }

    /// Leaves the line.
    pub(super) fn end(&self) {
        if self.is_terminal {
            drop(write!(std::io::stderr().lock(), "\r\x1b[K"));
        }
    }
}
