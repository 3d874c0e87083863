//! How wide text may be: the terminal's columns, from 80. Where stdout is no terminal text is as wide as it
//! comes, unless `COLUMNS` says otherwise.

use std::sync::OnceLock;

/// Columns of the terminal on stdout, once they are known.
static TERMINAL: OnceLock<usize> = OnceLock::new();

/// Text is never made narrower than this.
const LEAST: usize = 80;

/// Says how many columns the terminal on stdout has, if it is one. The first answer counts.
pub fn set_terminal(columns: Option<usize>) {
    if let Some(columns) = columns {
        TERMINAL.get_or_init(|| columns);
    }
}

/// Columns for text on stdout, or no bound.
pub fn of_stdout() -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    said.or_else(|| TERMINAL.get().copied()).map(|columns: usize| columns.max(LEAST))
}

/// Breaks each line that is longer than `most` columns at spaces; what follows is indented two columns more
/// than the line. A word that is longer stays whole.
pub fn wrapped(text: &str, most: usize) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        match line.trim_end().chars().count() {
            short if short <= most => out += line,
            _ => wrap_line(&mut out, line.trim_end(), most),
        }
    }
    out
}

fn wrap_line(out: &mut String, line: &str, most: usize) {
    let indent = line.len() - line.trim_start().len();
    let (mut used, mut is_first) = (indent, true);
    out.push_str(&line[..indent]);
    for word in line.trim_start().split(' ') {
        let length = word.chars().count();
        if !is_first && used + 1 + length > most {
            *out += &format!("\n{:indent$}  ", "");
            used = indent + 2;
        } else if !is_first {
            out.push(' ');
            used += 1;
        }
        *out += word;
        used += length;
        is_first = false;
    }
    out.push('\n');
}

#[cfg(test)]
#[path = "tests/width.rs"]
mod tests;
