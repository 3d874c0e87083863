//! Who may name whom, and where `unsafe` may stand; parsed from the sources.
//!
//! The library is built of floors, and a floor names only lower ones, as `crate::<floor>`. `table`, `tlb`,
//! `vma` and `object` share a floor and are strangers: they meet in `space`. The lab is built of floors too,
//! from its errors up to its command line. The lab and the kernel stand on the library and on the crate of
//! Linux's binary interface, and never know each other. Shared memory above `sync` goes through `sync`'s
//! door. `unsafe` stands where memory or the machine is handled: a floor that has no place for it forbids it,
//! which the compiler checks, and in what is no floor it is looked for here.
//!
//! Each rule has a small tree in `xtask/fixtures` that breaks it, so that a rule which finds nothing any more
//! is found out.

mod floors;
mod rules;
pub mod tokens;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A line that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The file, from the root.
    pub file: String,
    /// The line, from 1; 0 for a file as a whole.
    pub line: usize,
    /// What is wrong.
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

/// How many files there are, and what breaks a rule in them.
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
    violations.sort();
    Ok((files.len(), violations))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> Vec<String> {
        let root = crate::root().join("xtask/fixtures").join(name);
        let (files, violations) = check(&root).unwrap();
        assert!(files > 0, "{name} is empty");
        violations.iter().map(Violation::to_string).collect()
    }

    #[test]
    fn the_sources_keep_every_rule() {
        let (files, violations) = check(&crate::root()).unwrap();
        assert!(files > 10);
        assert!(violations.is_empty(), "{violations:#?}");
    }

    #[test]
    fn a_floor_that_names_a_higher_one_is_found() {
        assert_eq!(
            fixture("upward"),
            [
                "vm/src/frame/buddy.rs:3: frame names crate::space, which is above it",
                "vm/src/frame/buddy.rs:4: frame names crate::table, which is above it",
                "vm/src/frame/buddy.rs:9: frame names crate::vma, which is above it",
            ]
        );
    }

    #[test]
    fn a_floor_that_names_its_stranger_is_found() {
        assert_eq!(
            fixture("strangers"),
            [
                "vm/src/table/mod.rs:3: table names crate::tlb, its stranger",
                "vm/src/vma.rs:4: vma names crate::object, its stranger",
            ]
        );
    }

    #[test]
    fn a_path_that_leaves_its_floor_by_super_is_found() {
        assert_eq!(
            fixture("super"),
            [
                "vm/src/frame/mod.rs:3: super leaves the floor: name the other as crate::<floor>",
                "vm/src/frame/zone.rs:3: super leaves the floor: name the other as crate::<floor>",
            ]
        );
    }

    #[test]
    fn a_module_that_is_no_floor_is_found() {
        assert_eq!(
            fixture("no-floor"),
            [
                "vm/src/frame/mod.rs:3: crate::helpers is no floor",
                "vm/src/helpers.rs:0: helpers is no floor of the library",
            ]
        );
    }

    #[test]
    fn a_room_of_the_lab_that_names_a_higher_one_a_stranger_or_none_is_found() {
        assert_eq!(
            fixture("lab-floors"),
            [
                "lab/src/doctor.rs:0: doctor is no floor of the lab",
                "lab/src/machine/host.rs:3: unsafe stands outside of its places",
                "lab/src/measure/bench.rs:3: super leaves the floor: name the other as crate::<floor>",
                "lab/src/measure/mod.rs:4: measure names crate::cli, which is above it",
                "lab/src/trace/mod.rs:0: trace does not forbid unsafe code",
                "lab/src/trace/mod.rs:2: trace names crate::machine, its stranger",
            ]
        );
    }

    #[test]
    fn machine_code_calls_the_kernel_above_it_through_one_file() {
        assert_eq!(
            fixture("kernel-floors"),
            [
                "kernel/src/arch/mod.rs:3: arch names crate::task, which is above it",
                "kernel/src/task/mod.rs:0: task does not forbid unsafe code",
                "kernel/src/task/mod.rs:3: task names crate::linux, which is above it",
            ]
        );
    }

    #[test]
    fn the_lab_and_the_kernel_knowing_each_other_is_found() {
        assert_eq!(
            fixture("shelves"),
            [
                "kernel/src/main.rs:3: the kernel names the lab",
                "lab/Cargo.toml:2: lab depends on interleaf-kernel",
                "lab/src/lib.rs:3: the lab names the kernel",
                "linux-abi/src/lib.rs:3: the Linux ABI names the kernel",
                "vm/src/units.rs:4: the library names the lab",
                "vm/src/units.rs:5: the library names the Linux ABI",
            ]
        );
    }

    #[test]
    fn unsafe_outside_of_its_places_is_found_and_inside_is_not() {
        assert_eq!(
            fixture("unsafe"),
            [
                "lab/src/measure/mod.rs:0: measure does not forbid unsafe code",
                "vm/src/machine/mod.rs:9: unsafe stands outside of its places",
                "vm/src/space/mod.rs:0: space does not forbid unsafe code",
            ]
        );
    }

    #[test]
    fn shared_memory_that_does_not_go_through_the_door_is_found() {
        assert_eq!(
            fixture("door"),
            [
                "vm/src/frame/mod.rs:3: atomics come from crate::sync",
                "vm/src/space/mod.rs:7: atomics come from crate::sync",
            ]
        );
    }
}
