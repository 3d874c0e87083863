//! `docs/design/evidence.md`, *Calls*: each public method of `AddressSpace` has a row, and what a row names
//! exists.
//!
//! | column | a name in backticks is |
//! |---|---|
//! | calls | a method, `map()` |
//! | unit tests | a file or folder below `vm/src/space/tests`, or from the root |
//! | models | a file of `vm/src/space/models`, or from the root |
//! | pairs | an operation of `lab/check/src/pairs/operations.rs`, or a file of `lab/check/src` |
//! | Linux | a file of `lab/check/tests/oracle`, or from the root |

use super::{SHELVES, Violation, surface};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PAGE: &str = "docs/design/evidence.md";
const SECTION: &str = "## Calls";
const TYPE: &str = "AddressSpace";
const PAIRS: &str = "lab/check/src/";
const OPERATIONS: &str = "lab/check/src/pairs/operations.rs";

/// Where the names of each column after the first lie.
const COLUMNS: [&str; 4] = ["vm/src/space/tests/", "vm/src/space/models/", PAIRS, "lab/check/tests/oracle/"];

/// Methods without a row, rows of methods that do not exist, and names in rows that do not; nothing where the
/// tree has no such page.
pub fn check(root: &Path) -> Vec<Violation> {
    let Ok(page) = fs::read_to_string(root.join(PAGE)) else { return Vec::new() };
    let operations = fs::read_to_string(root.join(OPERATIONS)).unwrap_or_default();
    let is_operation = |name: &str| operations.lines().any(|line| line.trim() == format!("{name},"));
    let exists = |folder: &str, name: &str| {
        let is_from_root = SHELVES.iter().any(|shelf| name.starts_with(shelf));
        let path = if is_from_root { name.to_string() } else { format!("{folder}{name}") };
        root.join(&path).exists() || root.join(path + ".rs").exists() || folder == PAIRS && is_operation(name)
    };
    check_page(&page, &surface::public_methods(root, TYPE), exists)
}

fn check_page(page: &str, methods: &BTreeSet<String>, exists: impl Fn(&str, &str) -> bool) -> Vec<Violation> {
    let violation = |line, what| Violation { file: PAGE.to_string(), line, what };
    let mut missing = methods.clone();
    let mut violations = Vec::new();
    let section = page.lines().enumerate().skip_while(|(_, line)| *line != SECTION).skip(1);
    for (at, row) in section.take_while(|(_, line)| !line.starts_with("## ")) {
        let mut cells = row.trim_matches('|').split('|').map(names);
        if !row.starts_with('|') {
            continue;
        }
        for call in cells.next().unwrap_or_default() {
            let method = call.trim_end_matches("()");
            if !methods.contains(method) {
                violations.push(violation(at + 1, format!("{TYPE} has no public method {method}")));
            }
            missing.remove(method);
        }
        for (folder, names) in COLUMNS.into_iter().zip(cells) {
            let gone = names.into_iter().filter(|name| !exists(folder, name));
            violations.extend(gone.map(|name| violation(at + 1, format!("there is no {name}"))));
        }
    }
    violations
        .extend(missing.iter().map(|method| violation(0, format!("{method}() has no row under {SECTION}"))));
    violations
}

/// The names in backticks of a cell.
fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[cfg(test)]
#[path = "tests/calls.rs"]
mod tests;
