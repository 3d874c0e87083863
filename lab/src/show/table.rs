//! Tables, and how numbers look in them.

use super::width;
use comfy_table::{ContentArrangement, Table, presets};
use std::cmp::Reverse;

/// A table with a header; columns are as wide as what they hold, or as the terminal leaves them.
pub fn of(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.to_vec());
    for row in rows {
        table.add_row(row);
    }
    fitted(table, width::of_stdout())
}

/// The lines of a table, indented by two. Where they are longer than `most` columns, cells are broken.
pub fn fitted(mut table: Table, most: Option<usize>) -> String {
    table.set_content_arrangement(ContentArrangement::Disabled);
    let lines = |table: &Table| -> Vec<String> {
        // The style puts a space before the first column.
        let line = |line: String| format!("  {}\n", line.strip_prefix(' ').unwrap_or(&line).trim_end());
        table.lines().map(line).collect()
    };
    let natural = lines(&table);
    let longest = natural.iter().map(|line| line.trim_end().chars().count()).max().unwrap_or(0);
    match most.filter(|&most| longest > most) {
        None => natural.concat(),
        Some(most) => {
            table.set_content_arrangement(ContentArrangement::Dynamic);
            table.set_width(u16::try_from(most - 1).unwrap_or(u16::MAX));
            lines(&table).concat()
        }
    }
}

/// A table without the columns in which no row has anything.
pub fn of_used_columns(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let used = |column: usize| rows.iter().any(|row| row.get(column).is_some_and(|cell| !cell.is_empty()));
    let columns: Vec<usize> = (0..header.len()).filter(|&column| used(column)).collect();
    let header: Vec<&str> = columns.iter().map(|&column| header[column]).collect();
    of(&header, rows.iter().map(|row| columns.iter().map(|&column| row[column].clone()).collect()))
}

/// Those of the elements, at most `most`, whose size is the largest; in the order in which they were.
pub fn largest<T, S: Ord>(all: &[T], most: usize, size: impl Fn(&T) -> S) -> Vec<&T> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|&at| Reverse(size(&all[at])));
    order.truncate(most);
    order.sort_unstable();
    order.into_iter().map(|at| &all[at]).collect()
}

/// A number with three significant digits: `0.0123`, `1.23`, `12.3`, `123`, `12 345`, `1.23e9`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if value == value.trunc() && size < 1000.0 {
        return format!("{value:.0}");
    }
    match size {
        s if s >= 1e9 => format!("{value:.2e}"),
        s if s >= 1000.0 => grouped(value.round() as i64),
        s if s >= 100.0 => format!("{value:.0}"),
        s if s >= 10.0 => format!("{value:.1}"),
        s if s >= 1.0 => format!("{value:.2}"),
        s if s >= 0.1 => format!("{value:.3}"),
        s if s >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

/// A whole number in groups of three digits: `1 234 567`.
pub fn grouped(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    if value < 0 { format!("-{text}") } else { text }
}

#[cfg(test)]
#[path = "tests/table.rs"]
mod tests;
