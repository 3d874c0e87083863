//! Runs steps: most of them one after the other, those marked so beside them, on a second thread, one after
//! the other too. Each is named and timed; after a failure the rest still runs. What a step on the second
//! thread prints is kept, and shown between two steps of the first, so that no two outputs mix. Once the
//! first thread has done its own steps, it takes those that have not begun beside, the last one first:
//!
//! ```text
//!   first   tests ────────────────────► benchmarks ──► tour ──► fuzzers     prints as it goes
//!   beside  loom models ──► hostile calls ──► the kernel boots              kept until a step ends
//! ```
//!
//! Where two steps build in one target directory, cargo's lock makes one wait; nothing else is shared.
//!
//! No step is left out in silence. A step that the machine cannot run is listed, with the missing thing, and
//! a test inside of a step may report so too: it appends a line to the file that `INTERLEAF_LACKING` names
//! (see `interleaf_lab::os::lacking`). Where `CI=true` either is a failure.

use std::collections::VecDeque;
use std::env;
use std::fs;
use std::io::Write;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// The action of a step.
pub enum Action {
    /// Runs a command; it passes if its status is 0.
    Command(Command),
    /// The same, and its output is shown only if it fails.
    Quiet(Command),
    /// Runs a command; it passes if its status is not 0 and its output has this text.
    Refused(Command, &'static str),
    /// Runs `cargo test` of loom models and passes if it does and at least one of them ran.
    Models(Command),
    /// Calls a chore of this program.
    Chore(fn(&Path) -> Result<(), String>),
}

/// One step.
pub struct Step {
    /// Its name.
    pub name: &'static str,
    /// Its action.
    pub action: Action,
    /// The thread that runs it.
    pub lane: Lane,
}

/// Where a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// On the first thread.
    First,
    /// On the second one, or on the first once that has done its own. No chore: those print as they go.
    Beside,
}

/// A step that has ended.
struct Ended {
    name: &'static str,
    output: String,
    result: Result<(), String>,
    took: Duration,
}

/// Runs all steps and fails if one failed, or, where `CI=true`, if a step or test could not run.
pub fn run(steps: &[fn() -> Step]) -> Result<(), String> {
    let lacking_file = lacking_file();
    let _ = fs::remove_file(&lacking_file);
    let start = Instant::now();
    let failed = run_lanes(steps.iter().map(|step| step()).collect(), &lacking_file);
    let lacking = fs::read_to_string(&lacking_file).unwrap_or_default();
    verdict(steps.len(), &failed, &lacking, in_ci(), start.elapsed())
}

/// Runs both lanes to their ends; returns the names of the steps that failed.
fn run_lanes(steps: Vec<Step>, lacking_file: &Path) -> Vec<&'static str> {
    let mut log = Log { steps: steps.len(), begun: 0, failed: Vec::new() };
    let (first, beside): (Vec<_>, Vec<_>) = steps.into_iter().partition(|step| step.lane == Lane::First);
    let beside = &Mutex::new(VecDeque::from(beside));
    // The lock is held for the choice of a step alone.
    let next = || beside.lock().expect("no step panics there").pop_front();
    let last = || beside.lock().expect("no step panics there").pop_back();
    thread::scope(|scope| {
        let (sender, ended) = mpsc::channel();
        scope.spawn(move || {
            iter::from_fn(next).try_for_each(|step| sender.send(run_kept(step, lacking_file)))
        });
        for step in first.into_iter().chain(iter::from_fn(last)) {
            ended.try_iter().for_each(|other| log.whole(other));
            log.head(step.name);
            let began = Instant::now();
            let result = perform(step.action, lacking_file, None);
            log.tail(step.name, result, began.elapsed());
        }
        ended.iter().for_each(|other| log.whole(other));
    });
    log.failed
}

/// Runs a step and keeps what it prints.
fn run_kept(step: Step, lacking_file: &Path) -> Ended {
    let (mut output, began) = (String::new(), Instant::now());
    let result = perform(step.action, lacking_file, Some(&mut output));
    Ended { name: step.name, output, result, took: began.elapsed() }
}

/// What is printed of the steps.
struct Log {
    steps: usize,
    begun: usize,
    failed: Vec<&'static str>,
}

impl Log {
    fn head(&mut self, name: &str) {
        self.begun += 1;
        println!("--- {}/{}  {name}", self.begun, self.steps);
    }

    fn tail(&mut self, name: &'static str, result: Result<(), String>, took: Duration) {
        match result {
            Ok(()) => println!("--- ok, {}", seconds(took)),
            Err(line) => {
                println!("--- FAILED, {}: {line}", seconds(took));
                self.failed.push(name);
            }
        }
    }

    fn whole(&mut self, ended: Ended) {
        self.head(ended.name);
        print!("{}", ended.output);
        self.tail(ended.name, ended.result, ended.took);
    }
}

fn verdict(count: usize, failed: &[&str], lacking: &str, in_ci: bool, took: Duration) -> Result<(), String> {
    let mut lacking: Vec<&str> = lacking.lines().collect();
    lacking.sort_unstable();
    lacking.dedup();
    if !lacking.is_empty() {
        println!("could not be run on this machine:");
        lacking.iter().for_each(|line| println!("  {line}"));
    }
    if !failed.is_empty() {
        return Err(format!("{} of {count} steps failed: {}", failed.len(), failed.join(", ")));
    }
    if in_ci && !lacking.is_empty() {
        return Err(format!("{} tests could not be run, and CI=true asks for all of them", lacking.len()));
    }
    let rest = if lacking.is_empty() { "" } else { ", but not everything could be run" };
    println!("all {count} steps passed in {}{rest}", seconds(took));
    Ok(())
}

/// What a command prints goes to `kept`, or to the terminal where there is none; a chore prints as it goes.
fn perform(action: Action, lacking_file: &Path, kept: Option<&mut String>) -> Result<(), String> {
    match action {
        Action::Chore(chore) => chore(&crate::root()),
        Action::Command(mut command) => {
            command.env("INTERLEAF_LACKING", lacking_file).current_dir(crate::root());
            if let Some(kept) = kept {
                let (success, output) = output_of(&mut command)?;
                kept.push_str(&output);
                return if success { Ok(()) } else { Err(format!("{command:?} failed")) };
            }
            let status = command.status().map_err(|e| format!("{command:?}: {e}"))?;
            if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
        }
        Action::Quiet(mut command) => {
            let (success, output) = output_of(&mut command)?;
            if success { Ok(()) } else { Err(format!("{command:?} failed:\n{output}")) }
        }
        Action::Refused(mut command, text) => {
            let (success, output) = output_of(&mut command)?;
            match (success, output.contains(text)) {
                (true, _) => Err(format!("{command:?} should have been refused")),
                (false, false) => Err(format!("{command:?} was refused for another reason:\n{output}")),
                (false, true) => Ok(()),
            }
        }
        Action::Models(mut command) => {
            let (success, output) = output_of(&mut command)?;
            match kept {
                Some(kept) => kept.push_str(&output),
                None => print!("{output}"),
            }
            match (success, passed(&output)) {
                (false, _) => Err(format!("{command:?} failed")),
                (true, 0) => Err("no model ran".to_string()),
                (true, _) => Ok(()),
            }
        }
    }
}

/// Whether a command succeeds at the root, and its output.
pub fn output_of(command: &mut Command) -> Result<(bool, String), String> {
    let output = command.current_dir(crate::root()).output().map_err(|e| format!("{command:?}: {e}"))?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok((output.status.success(), text.concat()))
}

/// Notes, from inside of a chore, that something cannot be run on this machine.
pub fn note_lacking(line: &str) -> Result<(), String> {
    let path = lacking_file();
    let file = fs::OpenOptions::new().create(true).append(true).open(&path);
    let noted = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    noted.map_err(|e| format!("{}: {e}", path.display()))
}

/// Number of passed tests in the output of `cargo test`.
pub fn passed(output: &str) -> usize {
    let results = output.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    results.filter_map(|rest| rest.split(' ').next()?.parse::<usize>().ok()).sum()
}

fn in_ci() -> bool {
    env::var("CI").is_ok_and(|value| value == "true")
}

fn lacking_file() -> PathBuf {
    crate::root().join("target").join("lacking.txt")
}

fn seconds(time: Duration) -> String {
    format!("{:.0} s", time.as_secs_f64())
}

#[cfg(test)]
#[path = "tests/runner.rs"]
mod tests;
