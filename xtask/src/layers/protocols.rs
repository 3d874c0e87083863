//! `docs/design/protocols.md`: every protocol that a comment or a document cites by its number has a section
//! there, and what a section names exists.
//!
//! | in backticks | exists, if |
//! |---|---|
//! | `vm/...` and other names of files | the file or folder does |
//! | `name()` | the library has a function of that name |
//! | `loom_...` | the library has a model of that name |
//! | `Name` | the library has a type or trait of that name |
//! | `gather.flush-skipped` | the library has a mutation point of that name |

use super::{SHELVES, Violation};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PAGE: &str = "docs/design/protocols.md";
/// What each section says: the rule, why it holds, what breaks without it, the code, and what shows it,
/// models and mutation points among that.
const PARTS: &[&str] =
    &["**Rule.**", "**Why it holds.**", "**Without it.**", "**Code.**", "**Shown by.**", "`loom_", "Points:"];

/// Citations of protocols that have no section, and names in sections that do not exist.
pub fn check(root: &Path) -> Vec<Violation> {
    let page = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let library = crate::sources(&root.join("vm/src")).iter().map(|path| read(path)).collect::<String>();
    let mut violations = check_names(&page, &library, |name| root.join(name).exists());
    violations.extend(incomplete(&page));
    let defined: BTreeSet<u32> = page.lines().filter_map(heading).collect();
    for (file, text) in crate::prose(root) {
        violations.extend(undefined(&file, &text, &defined));
    }
    violations
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The number of the protocol that a line begins the section of.
fn heading(line: &str) -> Option<u32> {
    number(line.strip_prefix("## ")?.split(' ').next()?)
}

/// `P9`: 9.
fn number(word: &str) -> Option<u32> {
    let digits = word.strip_prefix('P')?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// The citations of protocols that are not defined, in the lines of a comment or a document.
fn undefined(file: &str, text: &str, defined: &BTreeSet<u32>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        for cited in words.filter_map(number).filter(|number| !defined.contains(number)) {
            let what = format!("P{cited} has no section in {PAGE}");
            violations.push(Violation { file: file.to_string(), line: at + 1, what });
        }
    }
    violations
}

/// The names in the sections of the page that do not exist.
fn check_names(page: &str, library: &str, exists: impl Fn(&str) -> bool) -> Vec<Violation> {
    let mut violations = Vec::new();
    let lines = page.lines().enumerate().skip_while(|(_, line)| heading(line).is_none());
    for (at, line) in lines {
        let names = line.split('`').skip(1).step_by(2);
        for name in names.filter(|name| !is_there(name, library, &exists)) {
            let what = format!("there is no {name}");
            violations.push(Violation { file: PAGE.to_string(), line: at + 1, what });
        }
    }
    violations
}

/// The sections that lack one of their parts.
fn incomplete(page: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let headings: Vec<_> = page.lines().enumerate().filter(|(_, line)| heading(line).is_some()).collect();
    for &(at, title) in &headings {
        let section = page.lines().skip(at + 1).take_while(|line| !line.starts_with("## "));
        let section = section.collect::<Vec<_>>().join("\n");
        for part in PARTS.iter().filter(|part| !section.contains(**part)) {
            let what = format!("{} lacks {part}", title.trim_start_matches("## "));
            violations.push(Violation { file: PAGE.to_string(), line: at + 1, what });
        }
    }
    violations
}

/// Whether a name of one of the kinds of the table above exists; other words are not looked at.
fn is_there(name: &str, library: &str, exists: impl Fn(&str) -> bool) -> bool {
    let has_function =
        |name: &str| ["(", "<"].iter().any(|after| library.contains(&format!("fn {name}{after}")));
    if SHELVES.iter().any(|shelf| name.starts_with(shelf)) {
        exists(name)
    } else if let Some(function) = name.strip_suffix("()") {
        has_function(function)
    } else if name.starts_with("loom_") {
        has_function(name)
    } else if name.contains('.') {
        library.contains(&format!("mutant!(\"{name}\")"))
    } else if name.starts_with(|c: char| c.is_ascii_uppercase()) {
        ["struct", "enum", "trait"].iter().any(|kind| library.contains(&format!("{kind} {name}")))
    } else {
        true
    }
}

#[cfg(test)]
#[path = "tests/protocols.rs"]
mod tests;
