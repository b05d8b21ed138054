//! What the medium itself takes, measured right beside what is compared over it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use crate::Result;
use crate::stats::quantile;

const BLOCK: usize = 4_096;
const SYNCS: u64 = 64;

/// The medians of `write` + `fdatasync` of 4 KiB, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Floor {
    /// Each write makes the file longer.
    pub extending: f64,
    /// Each write replaces bytes that are there.
    pub rewriting: f64,
}

/// Measures the floor of the disk under `dir`; takes about 25 ms on a disk of 0.2 ms.
pub fn measure(dir: &Path) -> Result<Floor> {
    let file = tempfile::NamedTempFile::new_in(dir)?;
    let file = OpenOptions::new().write(true).open(file.path())?;
    let extending = syncs(&file)?;
    let rewriting = syncs(&file)?;
    Ok(Floor { extending, rewriting })
}

fn syncs(file: &File) -> Result<f64> {
    let block = [0x5a; BLOCK];
    let mut took = Vec::new();
    for n in 0..SYNCS {
        let begun = Instant::now();
        file.write_all_at(&block, n * BLOCK as u64)?;
        file.sync_data()?;
        took.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok(quantile(&mut took, 0.5))
}

impl Floor {
    /// Whether numbers over the two may be compared: neither median is more than half as high again as the other's.
    pub fn comparable(&self, other: &Self) -> bool {
        let near = |a: f64, b: f64| a.max(b) <= 1.5 * a.min(b);
        near(self.extending, other.extending) && near(self.rewriting, other.rewriting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_that_differ_are_not_compared() {
        let floor = |extending, rewriting| Floor { extending, rewriting };
        assert!(floor(200.0, 100.0).comparable(&floor(290.0, 70.0)));
        assert!(!floor(200.0, 100.0).comparable(&floor(310.0, 100.0)));
        assert!(!floor(200.0, 100.0).comparable(&floor(200.0, 60.0)));
    }
}
