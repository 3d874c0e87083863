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
    let shelves = ["vm", "lab", "kernel", "xtask/src", "checks"];
    let files = shelves.iter().flat_map(|shelf| crate::sources(&root.join(shelf)));
    let lines = |path: &PathBuf| fs::read_to_string(path).map_or(0, |text| text.lines().count());
    files.map(|path| (lines(&path), path)).filter(|f| f.0 > MOST_LINES).map(|(n, p)| (p, n)).collect()
}
