//! Which module may name which, and where `unsafe` may stand; parsed from the sources.
//!
//! The library is built of floors, and a floor names only lower ones, as `crate::<floor>`. `table`, `tlb`,
//! `vma`, `object` and `anon` share a floor and are strangers: they meet in `space`. The lab is built of
//! floors too, from its errors up to its command line. The lab and the kernel stand on the library and on the
//! crate of Linux's binary interface, and never name each other. Above `sync`, atomics come from `sync`.
//! `unsafe` stands where memory or the machine is handled: a floor that has no place for it forbids it, which
//! the compiler checks; files outside of floors are searched here.
//!
//! Each rule has a small tree in `xtask/fixtures` that breaks it, so that a rule that finds nothing any more
//! fails its test. Beside the rules, the walks of ARCHITECTURE.md name files that are there (`walks`), the
//! protocols that comments cite are defined (`protocols`), the methods of types are counted (`surface`), and
//! each call of a space has its row of tests (`calls`).

mod calls;
mod floors;
mod protocols;
mod rules;
pub mod surface;
pub mod tokens;
mod walks;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Beginnings of the names of files in documents.
const SHELVES: &[&str] = &["vm/", "linux-abi/", "lab/", "kernel/"];

/// A line that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The file, from the root.
    pub file: String,
    /// The line, from 1; 0 for a file as a whole.
    pub line: usize,
    /// The violation.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// Prints every violation and fails if there is one.
pub fn check_and_print(root: &Path) -> Result<(), String> {
    let (files, violations) = check(root)?;
    for violation in &violations {
        println!("{violation}");
    }
    println!("{files} files keep to the layers but for {} lines", violations.len());
    if violations.is_empty() { Ok(()) } else { Err(format!("{} lines break the layers", violations.len())) }
}

/// Number of files, and the violations in them.
fn check(root: &Path) -> Result<(usize, Vec<Violation>), String> {
    let mut violations = Vec::new();
    let files: Vec<PathBuf> = ["vm", "linux-abi", "lab", "kernel", "xtask/src"]
        .iter()
        .flat_map(|shelf| crate::sources(&root.join(shelf)))
        .collect();
    for path in &files {
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let file = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
        violations.extend(rules::source(&file, &tokens::tokens(&text)));
    }
    for shelf in ["vm", "linux-abi", "lab", "kernel"] {
        let file = format!("{shelf}/Cargo.toml");
        let text = fs::read_to_string(root.join(&file)).unwrap_or_default();
        violations.extend(rules::manifest(&file, &text));
    }
    violations.extend(walks::check(root));
    violations.extend(protocols::check(root));
    violations.extend(surface::check(root));
    violations.extend(calls::check(root));
    violations.sort();
    Ok((files.len(), violations))
}

#[cfg(test)]
#[path = "tests/fixtures.rs"]
mod tests;
