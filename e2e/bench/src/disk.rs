//! What the disk itself takes: an acknowledgement cannot be faster.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;

use crate::figures::{Figures, Times};

/// Syncs that are measured.
const SYNCS: usize = 500;

/// Appends a page and syncs, as a commit does.
pub(crate) fn measure(folder: &Path, figures: &mut Figures) -> Result<()> {
    let path = folder.join("sync");
    let mut file = File::create(&path)?;
    let mut times = Times::default();
    for _ in 0..SYNCS {
        let begun = Instant::now();
        file.write_all(&[0x5a; 4_096])?;
        file.sync_data()?;
        times.add(begun.elapsed());
    }
    std::fs::remove_file(&path)?;
    figures.add(
        "disk: 4 KiB and fdatasync, p50",
        times.quantile(0.5),
        "ms",
        None,
    );
    figures.add(
        "disk: 4 KiB and fdatasync, p99",
        times.quantile(0.99),
        "ms",
        None,
    );
    Ok(())
}
