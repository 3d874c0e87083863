//! The project's own chores. `cargo xtask` without arguments lists them.
//!
//! | file | chore |
//! |---|---|
//! | `steps` | the steps of `test` and `ci`, in order |
//! | `runner` | running and timing steps in two lanes, and listing those that cannot run |
//! | `layers` | which module may name which, where `unsafe` may stand, what types offer |
//! | `boots` | booting the kernel, and its programs on the host |
//! | `storm` | many boots of one test |
//! | `lines` | the lines that two faults fight for, as the emulator sees it |
//! | `mutate` | breaking the library on purpose |
//! | `soak` | long runs: fuzzing, sequences, pairs, mutations |
//! | `sweep` | small programs after public bug reports: on Linux, in the kernel, recorded and replayed |
//! | `valgrind` | the library's unit tests under valgrind |
//! | `new_kind` | a backing and a kind of marker that nothing lists, by a patch of few files |
//! | `size` | files that have grown too long |
//! | `width` | lines that have grown too wide |
//! | `words` | replaced names of types, names declared twice, comments that name persons |
//! | `readme` | the marked blocks of README.md, from real runs |
//! | `output` | printing, and the end of a program whose reader has gone |

#![forbid(unsafe_code)]

// Before the others, which use its macros.
#[macro_use]
mod output;

mod boots;
mod layers;
mod lines;
mod mutate;
mod new_kind;
mod readme;
mod runner;
mod size;
mod soak;
mod steps;
mod storm;
mod sweep;
mod valgrind;
mod width;
mod words;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

const USAGE: &str = "\
usage: cargo xtask CHORE

  test     run every test there is: unit, loom, no_std link, layers, benchmarks at small size
  ci       what .ci/run calls: formatting, lints and documentation too
  boots    boot the kernel's self-tests and its programs, with one CPU and with more; or one of both:
           boots selftests, boots programs
  lines    watch the faults of two CPUs in the emulator, beside what the recorder sees
  storm    boot the storm many times: --boots 200 --cpus 1,2,4 --first SEED --program NAME --rounds N
           --selftest NAME
  layers   check which module names which and where `unsafe` stands
  surface  count the methods of the library's types, and name the types that can write an entry
  mutate   break the library in many ways, one at a time, and see each noticed: --list, --sample,
           --only NAME,...; with --write first, the table in docs/design/mutations.md is brought up to date
  soak     what takes too long for the tests: fuzz, oracle, forks, pairs, mutations, sweep, valgrind;
           prints the commit and the processor, and how long it took
  sweep    run the small programs of docs/results/sweep.md on Linux and in the kernel, record and replay
           them: first, second, or names
  valgrind run the library's unit tests under valgrind, where it is installed: all, or those named
  new-kind apply checks/new-kind/new-kind.patch, which adds a kind of memory and of marker, to a copy of
           the library, and run its tests; fail where it changes a file that its list does not have
  size     warn of files over 400 lines
  width    fail where a line has more than 110 columns, or one of a document more than 120
  words    fail where a type has a name that was replaced, two types of the library have one name, or a
           comment names a person (who, nobody)
  readme   run the commands in README.md's marked blocks and put their output there";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let chore = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["test"] => runner::run(&steps::test()),
        ["ci"] => runner::run(&steps::ci()),
        ["boots"] => boots::all(&root()),
        ["boots", "selftests"] => boots::self_tests(&root()),
        ["boots", "programs"] => boots::in_ring_3(&root()),
        ["lines"] => lines::run(&root()),
        ["storm", ref rest @ ..] => storm::run(&root(), rest),
        ["layers"] => layers::check_and_print(&root()),
        ["surface"] => layers::surface::print(&root()),
        ["mutate", ref rest @ ..] => mutate::run(&root(), rest),
        ["soak", ref rest @ ..] => soak::run(&root(), rest),
        ["sweep", ref rest @ ..] => sweep::run(&root(), rest),
        ["valgrind", ref rest @ ..] => valgrind::run(&root(), rest),
        ["new-kind"] => new_kind::check_and_print(&root()),
        ["size"] => size::check_and_print(&root()),
        ["width"] => width::check_and_print(&root()),
        ["words"] => words::check_and_print(&root()),
        ["readme"] => readme::refresh(&root()),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match chore {
        Ok(()) => ExitCode::SUCCESS,
        Err(line) => {
            eprintln!("xtask: {line}");
            ExitCode::FAILURE
        }
    }
}

/// A `cargo` without incremental compilation: most of what is built here is built once, from scratch, and
/// that takes a seventh less time so.
fn cargo() -> Command {
    let mut cargo = Command::new("cargo");
    cargo.env("CARGO_INCREMENTAL", "0");
    cargo
}

/// The root of the repository.
fn root() -> PathBuf {
    let xtask = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().map(PathBuf::from).unwrap_or(xtask)
}

/// Every Rust source of the project, fixtures excepted.
fn all_sources(root: &std::path::Path) -> Vec<PathBuf> {
    let shelves = ["vm", "linux-abi", "lab", "kernel", "xtask/src", "checks"];
    shelves.iter().flat_map(|shelf| sources(&root.join(shelf))).collect()
}

/// Every document of the project: those beside the root's, and below `docs`.
fn documents(root: &std::path::Path) -> Vec<PathBuf> {
    let folders = ["", "docs", "docs/design", "docs/decisions", "docs/porting", "docs/results"];
    let entries =
        folders.iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).into_iter().flatten());
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_some_and(|e| e == "md"));
    found.sort();
    found
}

/// What the project says in words: each file's name from the root, and the lines of it that are prose, the
/// others empty. Of a source those are the comments, of a document all.
fn prose(root: &std::path::Path) -> impl Iterator<Item = (String, String)> {
    let sources = all_sources(root).into_iter().map(|path| (path, true));
    let all = sources.chain(documents(root).into_iter().map(|path| (path, false)));
    all.map(move |(path, is_source)| {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        (name, if is_source { comments_of(&text) } else { text })
    })
}

/// The comments of a source, each in the line where it stands.
fn comments_of(source: &str) -> String {
    let comment = |line: &str| line.find("//").map_or(String::new(), |at| line[at..].to_string());
    source.lines().map(|line| comment(line) + "\n").collect()
}

/// Whether a source holds tests, models or what they stand on, by its name.
fn is_for_tests(file: &str) -> bool {
    let parts = ["/tests/", "/models/", "/testing/", "/tests.rs", "/testing.rs"];
    parts.iter().any(|part| file.contains(part))
}

/// Every file below `directory` whose name ends in `.rs`, sorted.
fn sources(directory: &std::path::Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(directory) else { return found };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}
