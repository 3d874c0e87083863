//! `cargo xtask mutate`: breaks the library on purpose, one way at a time, and shows that a test notices.
//!
//! ```text
//!   copy the tree ─► replace one text ─► run the few tests that should notice ─► put the text back
//!                         │                        │
//!                         │ not there, or twice    │ they pass: not caught
//!                         ▼                        ▼
//!                       failure                  failure
//! ```
//!
//! The tree itself is never touched: the copy lies in `target/mutate`, and shares the target directories, so
//! that only our own packages are built anew. They are of another version there, else cargo would take what
//! was built of a broken library for the tree's own. A mutation that no longer applies, or does not compile,
//! fails the run, as does one that is not caught. What hangs is caught too: a wait that never ends is noticed
//! by whoever runs the tests.

mod list;
mod list_jobs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time after which a run of tests is taken to hang. The slowest needs a tenth, once built.
const PATIENCE: Duration = Duration::from_secs(400);

/// Which tests should notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The library's unit tests of this name.
    Unit(&'static str),
    /// Tests of this name in a test program of the lab.
    Lab(&'static str, &'static str),
    /// The loom models of this name.
    Model(&'static str),
}

/// One way to break the library.
#[derive(Debug)]
pub struct Mutation {
    /// What is wrong then.
    pub name: &'static str,
    /// Where.
    pub file: &'static str,
    /// The text, which stands there once.
    pub old: &'static str,
    /// What takes its place.
    pub new: &'static str,
    /// Who should notice.
    pub by: By,
}

/// What came of a run of tests.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    /// The first test that failed.
    Failed(String),
    Hung,
    DoesNotCompile(String),
}

/// Runs one mutation that is soon played, so that this does not rot between two runs of all. Which one the
/// library's sources decide: another when they change, the same where nothing does.
pub fn sample(root: &Path) -> Result<(), String> {
    let digest = crate::sources(&root.join("vm/src")).iter().try_fold(0, |digest, source| {
        fs::read(source)
            .map(|bytes| digest_of(digest, &bytes))
            .map_err(|e| format!("{}: {e}", source.display()))
    })?;
    run(root, &["--only", &pick(digest, &quick()).to_string()])
}

/// One of the numbers, by the upper bits of a digest: the lower ones are less mixed.
fn pick(digest: u32, numbers: &[usize]) -> usize {
    numbers[(digest >> 12) as usize % numbers.len()]
}

/// All mutations, in the order of their numbers.
fn all() -> impl Iterator<Item = &'static Mutation> {
    list::ALL.iter().chain(list_jobs::ALL)
}

/// The numbers of mutations for which only the library and its unit tests are built anew.
fn quick() -> Vec<usize> {
    let unit = |(mutation, number): (&Mutation, usize)| matches!(mutation.by, By::Unit(_)).then_some(number);
    all().zip(1..).filter_map(unit).collect()
}

/// A number that changes with every byte (FNV-1a).
fn digest_of(digest: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(digest, |digest, &byte| (digest ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Runs the mutations whose numbers stand after `--only`, or all of them; `--list` only names them.
pub fn run(root: &Path, arguments: &[&str]) -> Result<(), String> {
    if arguments == ["--sample"] {
        return sample(root);
    }
    let chosen = chosen(arguments)?;
    if arguments == ["--list"] {
        print_list();
        return Ok(());
    }
    let _alone = alone(root)?;
    let tree = copy_tree(root)?;
    let bench = Bench { root, tree: &tree };
    let mut troubles = Vec::new();
    let mut healthy: Vec<By> = Vec::new();
    println!("| # | broken | noticed by | s |\n|---|---|---|---|");
    for number in chosen {
        let mutation = all().nth(number - 1).expect("a chosen number is one of them");
        if !healthy.contains(&mutation.by) {
            match bench.test(mutation.by)? {
                Verdict::Passed => healthy.push(mutation.by),
                other => return Err(format!("{:?} does not pass unbroken: {other:?}", mutation.by)),
            }
        }
        let began = Instant::now();
        let row = match bench.play(mutation) {
            Ok(Verdict::Failed(test)) => format!("`{test}`"),
            Ok(Verdict::Hung) => format!("{:?}, which hangs", mutation.by),
            Ok(other) => trouble(&mut troubles, number, format!("**not caught**: {other:?}")),
            Err(line) => trouble(&mut troubles, number, format!("**not played**: {line}")),
        };
        println!("| {number} | {} | {row} | {} |", mutation.name, began.elapsed().as_secs());
    }
    if troubles.is_empty() { Ok(()) } else { Err(format!("not caught: {troubles:?}")) }
}

fn trouble(troubles: &mut Vec<usize>, number: usize, row: String) -> String {
    troubles.push(number);
    row
}

fn print_list() {
    for (mutation, number) in all().zip(1..) {
        println!("{number:3}  {} ({}), by {:?}", mutation.name, mutation.file, mutation.by);
    }
}

fn chosen(arguments: &[&str]) -> Result<Vec<usize>, String> {
    let numbers_of_all = 1..=all().count();
    match arguments {
        [] | ["--list"] => Ok(numbers_of_all.collect()),
        ["--only", numbers] => numbers
            .split(',')
            .map(|number| number.parse().ok().filter(|number| numbers_of_all.contains(number)))
            .collect::<Option<_>>()
            .ok_or(format!("--only takes numbers from 1 to {}, with commas", all().count())),
        _ => Err("mutate takes nothing, --list, --sample, or --only N,M".to_string()),
    }
}

/// Two runs would break each other's copy. The lock is the process's: it ends with it.
fn alone(root: &Path) -> Result<fs::File, String> {
    let target = root.join("target");
    fs::create_dir_all(&target).map_err(|e| e.to_string())?;
    let lock = fs::File::create(target.join("mutate.lock")).map_err(|e| e.to_string())?;
    lock.try_lock().map_err(|_| "another run is under way".to_string())?;
    Ok(lock)
}

/// Copies the files that git knows or would take into `target/mutate`.
fn copy_tree(root: &Path) -> Result<PathBuf, String> {
    let tree = root.join("target").join("mutate");
    let list = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let listed =
        Command::new("git").args(list).current_dir(root).output().map_err(|e| format!("git: {e}"))?;
    for name in String::from_utf8_lossy(&listed.stdout).lines() {
        let (from, to) = (root.join(name), tree.join(name));
        // A file that is listed may be gone.
        let Ok(mut bytes) = fs::read(&from) else { continue };
        if name == "Cargo.toml" {
            bytes = of_another_version(&String::from_utf8_lossy(&bytes))?.into_bytes();
        }
        if fs::read(&to).is_ok_and(|known| known == bytes) {
            continue;
        }
        let parent = to.parent().unwrap_or(&tree);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&to, bytes))
            .map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(tree)
}

/// The workspace's manifest, with a version whose packages are nobody else's.
fn of_another_version(manifest: &str) -> Result<String, String> {
    let line =
        manifest.lines().find(|line| line.starts_with("version = ")).ok_or("the workspace has no version")?;
    replace_once(manifest, line, &format!("{}+broken\"", line.trim_end_matches('"')))
}

/// The tree, and the copy that is broken.
struct Bench<'a> {
    root: &'a Path,
    tree: &'a Path,
}

impl Bench<'_> {
    /// Breaks the copy, runs the tests, repairs the copy.
    fn play(&self, mutation: &Mutation) -> Result<Verdict, String> {
        let file = self.tree.join(mutation.file);
        let whole = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", mutation.file))?;
        let broken = replace_once(&whole, mutation.old, mutation.new)?;
        fs::write(&file, broken).map_err(|e| e.to_string())?;
        let verdict = self.test(mutation.by);
        fs::write(&file, whole).map_err(|e| e.to_string())?;
        verdict
    }

    fn test(&self, by: By) -> Result<Verdict, String> {
        let log = self.root.join("target").join("mutate.log");
        let out = fs::File::create(&log).map_err(|e| e.to_string())?;
        let err = out.try_clone().map_err(|e| e.to_string())?;
        let mut command = command(self.root, by);
        command.current_dir(self.tree).stdin(Stdio::null()).stdout(out).stderr(err);
        let mut child = command.spawn().map_err(|e| format!("cargo: {e}"))?;
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
                break Some(status);
            }
            if began.elapsed() > PATIENCE {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        let output = fs::read(&log).map_err(|e| e.to_string())?;
        Ok(verdict(status.map(|status| status.success()), &String::from_utf8_lossy(&output)))
    }
}

fn command(root: &Path, by: By) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.arg("test").env("RUST_BACKTRACE", "0");
    let target = match by {
        By::Model(_) => "target-loom",
        _ => "target",
    };
    cargo.arg("--target-dir").arg(root.join(target));
    match by {
        By::Unit(name) => cargo.args(["--package", "interleaf", "--lib", name]),
        By::Lab(program, name) => cargo.args(["--package", "interleaf-lab", "--test", program, name]),
        By::Model(name) => {
            cargo.args(["--package", "interleaf", "--release", "--lib", name]).env("RUSTFLAGS", "--cfg loom")
        }
    };
    cargo
}

/// `success` is `None` for a run that had to be ended.
fn verdict(success: Option<bool>, output: &str) -> Verdict {
    match success {
        Some(true) => Verdict::Passed,
        None => Verdict::Hung,
        Some(false) => match first_failed(output) {
            Some(test) => Verdict::Failed(test.to_string()),
            None if output.contains("could not compile") => {
                let error = output.lines().find(|line| line.starts_with("error")).unwrap_or("error");
                Verdict::DoesNotCompile(error.to_string())
            }
            None => Verdict::Failed("the test program, which ended".to_string()),
        },
    }
}

fn first_failed(output: &str) -> Option<&str> {
    output
        .lines()
        .find_map(|line| line.strip_prefix("test ")?.split_once(" ... FAILED").map(|(test, _)| test))
}

fn replace_once(whole: &str, old: &str, new: &str) -> Result<String, String> {
    match whole.matches(old).count() {
        1 => Ok(whole.replacen(old, new, 1)),
        0 => Err(format!("`{}` is not there any more", first_line(old))),
        many => Err(format!("`{}` is there {many} times", first_line(old))),
    }
}

fn first_line(text: &str) -> &str {
    text.trim_start().lines().next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutation_applies_to_the_tree_as_it_is() {
        for mutation in all() {
            let text = fs::read_to_string(crate::root().join(mutation.file)).unwrap();
            let broken = replace_once(&text, mutation.old, mutation.new);
            assert!(broken.is_ok_and(|broken| broken != text), "{}", mutation.name);
        }
    }

    #[test]
    fn the_copy_has_packages_of_its_own() {
        let manifest = "[workspace.package]\nversion = \"0.1.0\"\nedition = \"2024\"\n";
        let broken = of_another_version(manifest).unwrap();
        assert_eq!(broken, manifest.replace("0.1.0", "0.1.0+broken"));
        assert!(of_another_version("[workspace]").is_err());
    }

    #[test]
    fn a_text_that_is_gone_or_ambiguous_is_refused() {
        assert_eq!(replace_once("a b", "b", "c"), Ok("a c".to_string()));
        assert!(replace_once("a b", "d", "c").is_err() && replace_once("b b", "b", "c").is_err());
    }

    #[test]
    fn only_a_failed_test_counts_as_noticed() {
        let failed = "test a::b ... ok\ntest a::c ... FAILED\nerror: test failed";
        assert_eq!(verdict(Some(false), failed), Verdict::Failed("a::c".to_string()));
        let compile = "error[E0308]: mismatched types\nerror: could not compile `interleaf`";
        assert!(matches!(verdict(Some(false), compile), Verdict::DoesNotCompile(_)));
        assert_eq!(verdict(Some(true), "test a ... ok"), Verdict::Passed);
        assert_eq!(verdict(None, ""), Verdict::Hung);
    }

    #[test]
    fn every_quick_mutation_has_its_turn_as_the_sources_change() {
        let quick = quick();
        assert!(quick.len() > 1, "{quick:?}");
        let picks = (0..1000u32).map(|n| pick(digest_of(0, &n.to_le_bytes()), &quick));
        assert_eq!(picks.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>(), quick);
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert_eq!(chosen(&["--only", "1,2"]), Ok(vec![1, 2]));
        assert!(chosen(&["--only", "0"]).is_err() && chosen(&["--only", "999"]).is_err());
    }
}
