//! The program `interleaf-check`: built when it is asked for, and asked for exact counts.

use crate::error::Failure;
use crate::os::checkout::{self, PROFILE};
use serde::Deserialize;
use std::path::Path;
use std::process::Command;

/// The package, and its program.
pub const PACKAGE: &str = "interleaf-check";
/// Its folder in the checkout.
const PLACE: &str = "lab/check";

/// The program, built with the profile of this one. The first time takes a minute or two, and says so on
/// stderr.
///
/// # Errors
/// It does not build, or there is no checkout.
pub fn program() -> Result<Command, Failure> {
    let file = checkout::folder_of(PROFILE).join(PACKAGE);
    if !file.is_file() {
        eprintln!("interleaf: building {PACKAGE} (profile {PROFILE}), once");
    }
    checkout::build(PACKAGE, PLACE, PROFILE).map_err(Failure::usage)?;
    Ok(Command::new(file))
}

/// A count by its name, as `interleaf check counts --json` prints it.
#[derive(Debug, Deserialize)]
pub struct Count {
    /// The name of the figure.
    pub name: String,
    /// The count.
    pub value: f64,
    /// What it is the sum of.
    pub parts: Vec<(String, f64)>,
}

#[derive(Deserialize)]
struct Counts {
    counts: Vec<Count>,
}

/// The counts that the program calls `name`, in its order.
///
/// # Errors
/// The program cannot be had, or what it checks does not hold.
pub fn counts(name: &str, is_small: bool) -> Result<Vec<Count>, Failure> {
    let mut command = program()?;
    command.args(["counts", name, "--json"]).args(is_small.then_some("--small"));
    let output = command.output().map_err(|error| cannot_run(Path::new(PACKAGE), &error))?;
    if !output.status.success() {
        return Err(Failure::check(String::from_utf8_lossy(&output.stderr).trim().to_string()));
    }
    let counts: Counts = serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::check(format!("{PACKAGE} counts: {error}")))?;
    Ok(counts.counts)
}

fn cannot_run(file: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("{} cannot be run: {error}", file.display()))
}
