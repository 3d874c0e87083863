//! The table of docs/design/mutations.md, one row for each point that was played.

use super::Mutation;
use std::fs;
use std::path::Path;

/// The file that holds the table, from the root.
pub const FILE: &str = "docs/design/mutations.md";
/// The head of the table.
pub const HEAD: &str = "| point | what is wrong then | first test that noticed | s |\n|---|---|---|---|\n";

/// The first cell of a point's row.
pub fn cell(point: &str) -> String {
    format!("| `{point}` |")
}

/// The row of a point: the test that noticed, and the seconds of that run.
pub fn row(mutation: &Mutation, noticed: &str, seconds: u64) -> String {
    format!("{} {} | {noticed} | {seconds} |", cell(mutation.point), mutation.wrong)
}

/// Puts the row of a point into the file.
pub fn write(root: &Path, listed: &[&str], row: &str) -> Result<(), String> {
    let file = root.join(FILE);
    let text = fs::read_to_string(&file).map_err(|e| format!("{FILE}: {e}"))?;
    let text = with_row(&text, listed, row).ok_or(format!("{FILE} has no table"))?;
    fs::write(&file, text).map_err(|e| format!("{FILE}: {e}"))
}

/// The text with the row in its table, in the order of the list; rows of points that are not listed go.
/// `None` where there is no table.
pub fn with_row(text: &str, listed: &[&str], row: &str) -> Option<String> {
    let (before, rest) = text.split_once(HEAD)?;
    let end = rest.split_inclusive('\n').take_while(|line| line.starts_with('|')).map(str::len).sum();
    let old = rest[..end].lines().filter(|old| point_of(old) != point_of(row));
    let rows: Vec<&str> = old.chain([row]).collect();
    let of = |point: &&str| rows.iter().find(|row| point_of(row) == Some(*point));
    let table: String = listed.iter().filter_map(of).map(|row| format!("{row}\n")).collect();
    Some(format!("{before}{HEAD}{table}{}", &rest[end..]))
}

/// The point that a row is of.
fn point_of(row: &str) -> Option<&str> {
    row.strip_prefix("| `")?.split_once('`').map(|(point, _)| point)
}
