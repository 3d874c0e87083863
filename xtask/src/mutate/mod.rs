//! `cargo xtask mutate`: breaks the library on purpose, one way at a time, and shows that a test notices.
//!
//! The sources hold named points, `mutant!("gather.flush-skipped")`: booleans that are constant false, but in
//! builds with the library's feature `mutants`, where the environment variable `INTERLEAF_MUTANT` names the
//! one that is true (`vm/src/mutant.rs`). So every test program is built once, and only run again and again:
//!
//! ```text
//!   build the test programs ─► run the test of a point, unbroken ─► set INTERLEAF_MUTANT ─► run it again
//!                                        │ fails or hangs                                   │ passes
//!                                        ▼                                                  ▼
//!                                     failure                                      not caught: failure
//! ```
//!
//! A test that hangs has noticed too. The lab's test programs and the models have target directories of their
//! own; the library's tests are built with the feature by `cargo xtask test` too, and shared with it.
//!
//! | file | holds |
//! |---|---|
//! | `list` and `list_*` | the points, what is wrong there, which test notices |
//! | `merged` | mutations that share a point in the sources |
//! | `points` | the points that stand in the sources, against the list |
//! | `table` | the table of docs/design/mutations.md |
//! | `program` | building the test programs, and running one with a time limit |

mod list;
mod list_collapse;
mod list_edit;
mod list_files;
mod list_flush;
mod list_fork;
mod list_huge;
mod list_index;
mod list_jobs;
mod list_mapper;
mod list_memory;
mod list_objects;
mod list_pool;
mod list_remap;
mod list_rmap;
mod list_shared_huge;
mod list_sizes;
mod list_teardown;
mod list_thp;
mod list_walk;
mod list_walkers;
mod list_zero;
mod list_zone;
mod merged;
mod points;
mod program;
mod table;
#[cfg(test)]
mod tests;

pub use program::executable;
use program::{Programs, Verdict};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The test that should notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    /// The library's unit tests of this name.
    Unit(&'static str),
    /// Tests of this name in a test program of the lab.
    Lab(&'static str, &'static str),
    /// The loom models of this name.
    Model(&'static str),
}

/// One way to break the library.
#[derive(Debug)]
struct Mutation {
    /// The name of its point in the sources.
    point: &'static str,
    /// The error of the broken library.
    wrong: &'static str,
    /// The test that should notice it.
    test: Test,
}

/// All mutations.
fn all() -> impl Iterator<Item = &'static Mutation> {
    list::ALL
        .iter()
        .chain(list_fork::ALL)
        .chain(list_huge::ALL)
        .chain(list_collapse::ALL)
        .chain(list_thp::ALL)
        .chain(list_sizes::ALL)
        .chain(list_zero::ALL)
        .chain(list_zone::ALL)
        .chain(list_walk::ALL)
        .chain(list_walkers::ALL)
        .chain(list_memory::ALL)
        .chain(list_jobs::ALL)
        .chain(list_index::ALL)
        .chain(list_edit::ALL)
        .chain(list_mapper::ALL)
        .chain(list_teardown::ALL)
        .chain(list_remap::ALL)
        .chain(list_rmap::ALL)
        .chain(list_pool::ALL)
        .chain(list_shared_huge::ALL)
        .chain(list_objects::ALL)
        .chain(list_files::ALL)
        .chain(list_flush::ALL)
}

/// Plays the mutations whose points stand after `--only`, or all of them; with `--write` before, their rows
/// are put into docs/design/mutations.md. `--list` only names them.
pub fn run(root: &Path, arguments: &[&str]) -> Result<(), String> {
    match arguments {
        ["--list"] => {
            all().for_each(|m| println!("{:36} {}, noticed by {:?}", m.point, m.wrong, m.test));
            Ok(())
        }
        ["--sample"] => sample(root),
        ["--write", rest @ ..] => play_all(root, &chosen(rest)?, Rows::Written),
        _ => play_all(root, &chosen(arguments)?, Rows::Printed),
    }
}

/// Fails where the list and the sources do not name the same points.
fn check_points(root: &Path) -> Result<(), String> {
    let mut listed: Vec<&str> = Vec::new();
    for point in all().map(|mutation| mutation.point) {
        // Once, however many mutations share it.
        let is_merged = merged::point_of(point) != point;
        if !is_merged || !listed.contains(&merged::point_of(point)) && !has_own(merged::point_of(point)) {
            listed.push(merged::point_of(point));
        }
    }
    let differences = points::differences(&points::in_tree(root), &listed);
    if differences.is_empty() { Ok(()) } else { Err(differences.join("; ")) }
}

/// Whether a mutation has the name of the point.
fn has_own(point: &str) -> bool {
    all().any(|mutation| mutation.point == point)
}

/// Plays one mutation that unit tests notice, so that this does not rot between two runs of all. Which one
/// the library's sources decide: another when they change, the same where nothing does.
fn sample(root: &Path) -> Result<(), String> {
    let digest = crate::sources(&root.join("vm/src")).iter().try_fold(0, |digest, source| {
        fs::read(source)
            .map(|bytes| digest_of(digest, &bytes))
            .map_err(|e| format!("{}: {e}", source.display()))
    })?;
    play_all(root, &[pick(digest, &quick())], Rows::Printed)
}

/// One of the mutations, by a digest, whose bits are mixed first: some of them say little (the finaliser of
/// MurmurHash3).
fn pick(digest: u32, mutations: &[&'static Mutation]) -> &'static Mutation {
    let step = |word: u32, shift: u32, factor: u32| (word ^ word >> shift).wrapping_mul(factor);
    let mixed = step(step(digest, 16, 0x85eb_ca6b), 13, 0xc2b2_ae35);
    mutations[(mixed ^ mixed >> 16) as usize % mutations.len()]
}

/// The mutations for which only the library and its unit tests are built.
fn quick() -> Vec<&'static Mutation> {
    all().filter(|mutation| matches!(mutation.test, Test::Unit(_))).collect()
}

/// A number that changes with every byte (FNV-1a).
fn digest_of(digest: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(digest, |digest, &byte| (digest ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn chosen(arguments: &[&str]) -> Result<Vec<&'static Mutation>, String> {
    let of_name =
        |name| all().find(|m| m.point == name).ok_or(format!("there is no point {name}: see --list"));
    match arguments {
        [] => Ok(all().collect()),
        ["--only", names] => names.split(',').map(of_name).collect(),
        _ => {
            Err("mutate takes nothing, --list, --sample, or --only NAME,... and --write before it"
                .to_string())
        }
    }
}

/// Where the rows of the table go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// To the standard output.
    Printed,
    /// There, and into the table of docs/design/mutations.md, one after the other.
    Written,
}

/// Plays each mutation, and prints or writes its row of the table. Progress goes to the standard error.
fn play_all(root: &Path, mutations: &[&'static Mutation], rows: Rows) -> Result<(), String> {
    check_points(root)?;
    let mut programs = Programs::new(root);
    let mut healthy: Vec<(Test, Duration)> = Vec::new();
    let mut missed = Vec::new();
    let listed: Vec<&str> = all().map(|mutation| mutation.point).collect();
    print!("{}", table::HEAD);
    for (mutation, number) in mutations.iter().zip(1..) {
        eprintln!("[{number}/{}] {}", mutations.len(), mutation.point);
        let limit = match healthy.iter().find(|(test, _)| *test == mutation.test) {
            Some((_, took)) => limit_for(*took),
            None => {
                let took = passes_unbroken(&mut programs, mutation.test)?;
                healthy.push((mutation.test, took));
                limit_for(took)
            }
        };
        let began = Instant::now();
        let noticed = match programs.run(mutation.test, Some(merged::point_of(mutation.point)), limit)? {
            Verdict::Failed(test) => test,
            Verdict::Hung => format!("{:?}, which hangs", mutation.test),
            Verdict::Passed(_) => {
                missed.push(mutation.point);
                "**not caught**".to_string()
            }
        };
        let row = table::row(mutation, &noticed, began.elapsed().as_secs());
        println!("{row}");
        if rows == Rows::Written {
            table::write(root, &listed, &row)?;
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("not caught: {}", missed.join(", "))) }
}

/// Runs a test on the unbroken library: one that fails anyway, or is not there, notices nothing. Returns how
/// long it took.
fn passes_unbroken(programs: &mut Programs<'_>, test: Test) -> Result<Duration, String> {
    programs.build(test)?;
    let began = Instant::now();
    match programs.run(test, None, Duration::from_secs(600))? {
        Verdict::Passed(0) => Err(format!("there is no test {test:?}")),
        Verdict::Passed(_) => Ok(began.elapsed()),
        other => Err(format!("{test:?} does not pass unbroken: {other:?}")),
    }
}

/// Time after which a run is taken to hang, where the unbroken library took `took`.
fn limit_for(took: Duration) -> Duration {
    Duration::from_secs(30) + 10 * took
}
