//! Lines of at most 110 columns in all Rust sources, comments too: rustfmt leaves comments and strings alone.

use std::fs;
use std::path::Path;

/// Most columns of a line, as in rustfmt.toml.
const MOST_COLUMNS: usize = 110;

/// Prints each line that is wider, and fails if there is one.
pub fn check_and_print(root: &Path) -> Result<(), String> {
    let mut wide = 0;
    for path in crate::all_sources(root) {
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let file = path.strip_prefix(root).unwrap_or(&path);
        for (line, columns) in wide_lines(&text) {
            println!("{}:{line}: {columns} columns", file.display());
            wide += 1;
        }
    }
    println!("{wide} lines have more than {MOST_COLUMNS} columns");
    if wide == 0 { Ok(()) } else { Err(format!("{wide} lines have more than {MOST_COLUMNS} columns")) }
}

/// The numbers of the lines that are too wide, from 1, and their columns.
fn wide_lines(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let columns = text.lines().map(|line| line.chars().count());
    (1..).zip(columns).filter(|&(_, columns)| columns > MOST_COLUMNS)
}

#[cfg(test)]
#[path = "tests/width.rs"]
mod tests;
