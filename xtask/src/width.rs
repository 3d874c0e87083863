//! Widths of lines: at most 110 columns in all Rust sources, comments too, as rustfmt leaves comments and
//! strings alone; at most 120 in documents. Rows of tables are one line each, however wide, and what is
//! fenced is as it is; but README's rows are to be read in two lines.

use std::fs;
use std::path::Path;

/// Most columns of a line of Rust, as in rustfmt.toml.
const MOST_COLUMNS: usize = 110;
/// Most columns of a line of a document.
const MOST_IN_DOCUMENTS: usize = 120;
/// Most columns of a row of a table in README.md.
const MOST_IN_ROWS: usize = 240;

/// Prints each line that is wider, and fails if there is one.
pub fn check_and_print(root: &Path) -> Result<(), String> {
    type Check = fn(&str) -> Vec<(usize, usize)>;
    let sources = crate::all_sources(root).into_iter().map(|path| (path, in_source as Check));
    let documents = crate::documents(root).into_iter().filter(|path| !path.ends_with("CHANGELOG.md"));
    let documents = documents.map(|path| match path == root.join("README.md") {
        true => (path, in_readme as Check),
        false => (path, in_document as Check),
    });
    let mut wide = 0;
    for (path, wide_lines) in sources.chain(documents) {
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let file = path.strip_prefix(root).unwrap_or(&path);
        for (line, columns) in wide_lines(&text) {
            println!("{}:{line}: {columns} columns", file.display());
            wide += 1;
        }
    }
    println!("{wide} lines are too wide");
    if wide == 0 { Ok(()) } else { Err(format!("{wide} lines are too wide")) }
}

/// The numbers of the lines that are too wide, from 1, and their columns.
fn in_source(text: &str) -> Vec<(usize, usize)> {
    wide_lines(text, |_| MOST_COLUMNS)
}

fn in_document(text: &str) -> Vec<(usize, usize)> {
    outside_of_fences(text, usize::MAX)
}

fn in_readme(text: &str) -> Vec<(usize, usize)> {
    outside_of_fences(text, MOST_IN_ROWS)
}

fn outside_of_fences(text: &str, most_in_rows: usize) -> Vec<(usize, usize)> {
    let mut is_fenced = false;
    wide_lines(text, |line| {
        is_fenced ^= line.trim_start().starts_with("```");
        match line.trim_start().starts_with('|') {
            _ if is_fenced => usize::MAX,
            true => most_in_rows,
            false => MOST_IN_DOCUMENTS,
        }
    })
}

fn wide_lines(text: &str, mut most: impl FnMut(&str) -> usize) -> Vec<(usize, usize)> {
    let columns = text.lines().map(|line| (line.chars().count(), most(line)));
    (1..)
        .zip(columns)
        .filter(|(_, (columns, most))| columns > most)
        .map(|(at, (columns, _))| (at, columns))
        .collect()
}

#[cfg(test)]
#[path = "tests/width.rs"]
mod tests;
