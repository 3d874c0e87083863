//! Runs steps one after the other. Each is named and timed; after a failure the rest still runs.
//!
//! No step is left out in silence. A step that the machine cannot run is listed, with the missing thing, and
//! a test inside of a step may report so too: it appends a line to the file that `INTERLEAF_LACKING` names
//! (see `interleaf_lab::os::lacking`). Where `CI=true` either is a failure.

use std::env;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
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
    Chore(fn(&std::path::Path) -> Result<(), String>),
}

/// One step.
pub struct Step {
    /// Its name.
    pub name: &'static str,
    /// Its action.
    pub action: Action,
}

/// Runs all steps and fails if one failed, or, where `CI=true`, if a step or test could not run.
pub fn run(steps: &[fn() -> Step]) -> Result<(), String> {
    let lacking_file = lacking_file();
    let _ = fs::remove_file(&lacking_file);
    let start = Instant::now();
    let mut failed = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let step = step();
        println!("--- {}/{}  {}", index + 1, steps.len(), step.name);
        let began = Instant::now();
        match perform(step.action, &lacking_file) {
            Ok(()) => println!("--- ok, {}", seconds(began.elapsed())),
            Err(line) => {
                println!("--- FAILED, {}: {line}", seconds(began.elapsed()));
                failed.push(step.name);
            }
        }
    }
    let lacking = fs::read_to_string(&lacking_file).unwrap_or_default();
    verdict(steps.len(), &failed, &lacking, in_ci(), start.elapsed())
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

fn perform(action: Action, lacking_file: &PathBuf) -> Result<(), String> {
    match action {
        Action::Chore(chore) => chore(&crate::root()),
        Action::Command(mut command) => {
            command.env("INTERLEAF_LACKING", lacking_file).current_dir(crate::root());
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
            print!("{output}");
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
