//! Files over 400 lines: a warning, not a failure.

use std::fs;
use std::path::{Path, PathBuf};

const MOST_LINES: usize = 400;

/// Names the files that are too long.
pub fn check_and_print(root: &Path) -> Result<(), String> {
    let long = too_long(root);
    for (path, lines) in &long {
        println!("warning: {} has {lines} lines, over {MOST_LINES}", path.display());
    }
    println!("{} files over {MOST_LINES} lines", long.len());
    Ok(())
}

fn too_long(root: &Path) -> Vec<(PathBuf, usize)> {
    let lines = |path: &PathBuf| fs::read_to_string(path).map_or(0, |text| text.lines().count());
    let files = crate::all_sources(root).into_iter();
    files.map(|path| (lines(&path), path)).filter(|f| f.0 > MOST_LINES).map(|(n, p)| (p, n)).collect()
}
