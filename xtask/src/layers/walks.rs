//! The walks of ARCHITECTURE.md: every file and folder that one names is there, and it lists as many files as
//! its title says.
//!
//! ```text
//! **A title**, and what is walked, 2 files:
//!
//! vm/src/a.rs     in a fenced block: a line for each file, and what happens there
//! vm/src/b.rs
//!
//! Doors: `vm/src/sync/`
//! ```
//!
//! That no file is missing is a test of the lab, `lab/check/tests/counted/walks.rs`.

use super::{SHELVES, Violation};
use std::fs;
use std::path::Path;

const FILE: &str = "ARCHITECTURE.md";
const SECTION: &str = "## Walks through the code";

/// What the walks of the tree say that is not so; nothing where the tree has no such file.
pub fn check(root: &Path) -> Vec<Violation> {
    let text = fs::read_to_string(root.join(FILE));
    text.map_or(Vec::new(), |text| check_text(&text, |name| root.join(name).exists()))
}

/// A walk whose list is being read.
struct Walk {
    /// The line of its title.
    line: usize,
    /// Number of files, as the title says.
    says: Option<usize>,
    listed: usize,
}

impl Walk {
    fn violation(&self) -> Option<Violation> {
        let what = match self.says {
            Some(says) if says == self.listed => return None,
            Some(says) => format!("the walk says {says} files and lists {}", self.listed),
            None => "the walk says no number of files".to_string(),
        };
        Some(Violation { file: FILE.to_string(), line: self.line, what })
    }
}

fn check_text(text: &str, exists: impl Fn(&str) -> bool) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut walk: Option<Walk> = None;
    let lines = text.lines().enumerate().skip_while(|(_, line)| *line != SECTION).skip(1);
    for (at, line) in lines.take_while(|(_, line)| !line.starts_with("## ")) {
        let line_number = at + 1;
        if line.starts_with("**") {
            violations.extend(walk.take().and_then(|walk| walk.violation()));
            walk = Some(Walk { line: line_number, says: number_of_files(line), listed: 0 });
        }
        let words = || line.split(|c: char| c.is_whitespace() || c == '`');
        let is_name = |word: &&str| SHELVES.iter().any(|shelf| word.starts_with(shelf));
        for name in words().filter(is_name).filter(|name| !exists(name)) {
            let what = format!("{name} is not there");
            violations.push(Violation { file: FILE.to_string(), line: line_number, what });
        }
        if let Some(walk) = &mut walk {
            walk.listed += usize::from(words().next().is_some_and(|word| is_name(&word)));
        }
    }
    let last = walk.map_or_else(
        || Some(Violation { file: FILE.to_string(), line: 0, what: format!("no walk under {SECTION}") }),
        |walk| walk.violation(),
    );
    violations.extend(last);
    violations
}

/// The number before the word `files`.
fn number_of_files(title: &str) -> Option<usize> {
    let words: Vec<&str> = title.split_whitespace().collect();
    words.windows(2).find(|pair| pair[1].starts_with("files")).and_then(|pair| pair[0].parse().ok())
}

#[cfg(test)]
#[path = "tests/walks.rs"]
mod tests;
