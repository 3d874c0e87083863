//! Which packages are built for a boot, and where their files lie.
//!
//! A lab binary that was copied elsewhere can still boot a kernel and a program that are named by their
//! files.

use crate::os::checkout;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The programs for ring 3 in `kernel/programs`, each with what it demonstrates.
pub const PROGRAMS: &[(&str, &str)] = &[
    ("clocks", "Clocks show the time, sleeps last as long as they are asked to, and odd words are refused"),
    ("cost", "What the smallest operations cost, in ticks: a call, faults, unmapping"),
    ("dontneed", "MADV_DONTNEED of the same pages from two CPUs: whoever returns reads zero"),
    ("end", "Prints its words and ends with a code, or by a signal, as the first of them says"),
    ("exceptions", "Exceptions and refused faults are signals with Linux's codes, addresses and error codes"),
    ("faults", "A page reads zero until it is written, and keeps what was written"),
    ("fork_storm", "Threads and their children fork, map, write and unmap, and know each page"),
    ("forks", "Parent and child each see their own memory; threads write while another forks; families end"),
    (
        "huge",
        "Memory that is read costs nothing, what is written comes by 2 MiB, and the kernel's files say so",
    ),
    ("khugepaged", "Base pages become huge pages in the background, beside a thread that stores"),
    ("map_touch_unmap", "Map, touch and unmap a page over and over: the kernel counts the interrupts"),
    ("pair", "Two CPUs fault in the halves of one mapping, in turns: what the plugin watches"),
    ("policy", "mbind answers as Linux does: modes, flags, holes and the order of checks"),
    ("pool", "Huge pages of the hugetlb pool: set aside, shared by a fork, a bus error without; counted"),
    ("protect", "What is not allowed ends in SIGSEGV at its address; what is allowed again works"),
    ("remap", "mremap moves what pages hold, beside threads that read them and children that have them"),
    (
        "signals",
        "Actions, masks and stacks of signals are kept as Linux keeps them, and handlers change contexts",
    ),
    ("storm", "All CPUs map, write, protect, drop and unmap in one space, and check contents"),
    ("unmap_readers", "When munmap has returned, nobody reads the old pages"),
];

/// The kernel's package and its file.
const KERNEL: &str = "interleaf-kernel";
/// The package of the programs.
const PROGRAMS_PACKAGE: &str = "interleaf-programs";
/// The profile both are built with, and so the folder they lie in; and the one in which the library checks
/// itself.
const PROFILE: &str = "kernel";
const CHECKED: &str = "kernel-checked";
/// The emulator.
const QEMU: &str = "qemu-system-x86_64";
/// How to get it.
pub const QEMU_REMEDY: &str = "sudo apt-get install qemu-system-x86";

/// The emulator in PATH.
pub fn qemu() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|dir| dir.join(QEMU)).find(|p| fs::metadata(p).is_ok_and(|m| m.is_file()))
}

/// The message where there is none.
pub fn no_qemu() -> String {
    format!("no {QEMU} in PATH: {QEMU_REMEDY}")
}

/// Builds the kernel, with the library's debug assertions if it is to check itself, and returns its file.
pub fn kernel(checked: bool) -> Result<PathBuf, String> {
    let profile = if checked { CHECKED } else { PROFILE };
    checkout::build(KERNEL, "kernel", profile).map(|folder| folder.join(KERNEL))
}

/// The file of a program: one of ours by its name, which is built, or any other by its path.
pub fn program(word: &str) -> Result<PathBuf, String> {
    if PROGRAMS.iter().any(|(name, _)| *name == word) {
        return checkout::build(PROGRAMS_PACKAGE, "kernel/programs", PROFILE).map(|folder| folder.join(word));
    }
    if Path::new(word).is_file() {
        return Ok(PathBuf::from(word));
    }
    let names: Vec<_> = PROGRAMS.iter().map(|(name, _)| *name).collect();
    Err(format!("{word}: no such file, and none of the programs {}", names.join(", ")))
}

#[cfg(test)]
#[path = "tests/image.rs"]
mod tests;
