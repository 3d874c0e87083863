//! The test programs: each is built once, and run with a time limit.

use super::Test;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The result of a run of tests.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All passed; their number.
    Passed(usize),
    /// The first test that failed.
    Failed(String),
    /// The run had to be ended.
    Hung,
}

/// The kinds of test programs: several tests share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unit,
    Lab(&'static str),
    Models,
}

/// The programs built so far.
pub struct Programs<'a> {
    root: &'a Path,
    built: Vec<(Kind, PathBuf)>,
}

impl<'a> Programs<'a> {
    /// None yet.
    pub fn new(root: &'a Path) -> Self {
        Self { root, built: Vec::new() }
    }

    /// Builds the program that a test is in, unless it is there.
    pub fn build(&mut self, test: Test) -> Result<(), String> {
        let kind = kind(test);
        if self.built.iter().any(|(built, _)| *built == kind) {
            return Ok(());
        }
        eprintln!("building {kind:?}");
        let mut cargo = build_command(kind);
        let output = cargo.current_dir(self.root).output().map_err(|e| format!("{cargo:?}: {e}"))?;
        let printed = String::from_utf8_lossy(&output.stderr);
        let program = executable(&printed).filter(|_| output.status.success());
        let program = program.ok_or(format!("{cargo:?} failed:\n{printed}"))?;
        self.built.push((kind, self.root.join(program)));
        Ok(())
    }

    /// Runs a test whose program is built, with one point broken or none.
    pub fn run(&self, test: Test, point: Option<&str>, limit: Duration) -> Result<Verdict, String> {
        let kind = kind(test);
        let (_, program) = self.built.iter().find(|(built, _)| *built == kind).ok_or("not built")?;
        let folder = self.root.join(if matches!(kind, Kind::Lab(_)) { "lab" } else { "vm" });
        let logs = self.root.join("target/mutants");
        fs::create_dir_all(&logs).map_err(|e| format!("{}: {e}", logs.display()))?;
        let log = logs.join("log");
        let out = fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let err = out.try_clone().map_err(|e| e.to_string())?;
        let mut command = Command::new(program);
        command.arg(name_of(test)).current_dir(folder).env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::null()).stdout(out).stderr(err).env_remove("INTERLEAF_MUTANT");
        command.envs(point.map(|point| ("INTERLEAF_MUTANT", point)));
        let success = succeeds_within(&mut command, limit)?;
        let output = fs::read(&log).map_err(|e| e.to_string())?;
        Ok(verdict(success, &String::from_utf8_lossy(&output)))
    }
}

fn kind(test: Test) -> Kind {
    match test {
        Test::Unit(_) => Kind::Unit,
        Test::Lab(program, _) => Kind::Lab(program),
        Test::Model(_) => Kind::Models,
    }
}

fn name_of(test: Test) -> &'static str {
    match test {
        Test::Unit(name) | Test::Lab(_, name) | Test::Model(name) => name,
    }
}

fn build_command(kind: Kind) -> Command {
    let mut cargo = crate::cargo();
    cargo.args(["test", "--no-run", "--color", "never"]);
    match kind {
        Kind::Unit => {
            cargo.args(["--package", "interleaf", "--lib", "--features", "mutants", "--profile", "unit"])
        }
        Kind::Lab(program) => {
            cargo.args(["--package", "interleaf-check", "--test", program, "--features", "interleaf/mutants"])
        }
        Kind::Models => cargo
            .args(["--package", "interleaf", "--lib", "--features", "mutants", "--profile", "optimised"])
            .env("RUSTFLAGS", "--cfg loom"),
    };
    // The library's own tests are built with the feature by `cargo xtask test` too, in the usual place.
    match kind {
        Kind::Unit => {}
        Kind::Lab(_) => drop(cargo.args(["--target-dir", "target/mutants"])),
        Kind::Models => drop(cargo.args(["--target-dir", "target/mutants-loom"])),
    }
    cargo
}

/// The program that `cargo test --no-run` says it has built: `Executable NAME (PATH)`.
pub fn executable(printed: &str) -> Option<&str> {
    let line = printed.lines().find(|line| line.trim_start().starts_with("Executable "))?;
    line.rsplit_once('(')?.1.strip_suffix(')')
}

/// Whether a command succeeds; `None` for one that had to be ended.
fn succeeds_within(command: &mut Command, limit: Duration) -> Result<Option<bool>, String> {
    let mut child = command.spawn().map_err(|e| format!("{command:?}: {e}"))?;
    let began = Instant::now();
    while began.elapsed() < limit {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            return Ok(Some(status.success()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
    Ok(None)
}

/// `success` is `None` for a run that had to be ended.
pub fn verdict(success: Option<bool>, output: &str) -> Verdict {
    match success {
        Some(true) => Verdict::Passed(crate::runner::passed(output)),
        None => Verdict::Hung,
        Some(false) => Verdict::Failed(match first_failed(output) {
            Some(test) => format!("`{test}`"),
            None => "the test program, which ended".to_string(),
        }),
    }
}

fn first_failed(output: &str) -> Option<&str> {
    output
        .lines()
        .find_map(|line| line.strip_prefix("test ")?.split_once(" ... FAILED").map(|(test, _)| test))
}
