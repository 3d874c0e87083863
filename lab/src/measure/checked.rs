//! Programs of this repository that are built when they are asked for; and `interleaf-check`, asked for exact
//! counts.

use crate::error::Failure;
use crate::os::checkout::{self, PROFILE};
use serde::Deserialize;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// A package whose program bears its name.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    /// Its name.
    pub name: &'static str,
    /// Its folder in the checkout.
    place: &'static str,
}

/// What `interleaf check` runs.
pub const CHECK: Package = Package { name: "interleaf-check", place: "lab/check" };
/// What `interleaf predict` runs.
pub const PREDICT: Package = Package { name: "interleaf-predict", place: "lab/predict" };

impl Package {
    /// The program, built with the profile of this one. The first time takes a minute or two, and says so on
    /// stderr.
    ///
    /// # Errors
    /// It does not build, or there is no checkout.
    pub fn program(self) -> Result<Command, Failure> {
        let Self { name, place } = self;
        let file = checkout::folder_of(PROFILE).join(name);
        if !file.is_file() {
            eprintln!("interleaf: building {name} (profile {PROFILE}), once");
        }
        checkout::build(name, place, PROFILE).map_err(Failure::usage)?;
        Ok(Command::new(file))
    }

    /// Becomes the program, with these words. Returns only if that fails.
    pub fn exec(self, words: impl IntoIterator<Item = OsString>) -> Failure {
        match self.program() {
            Ok(mut program) => self.cannot_run(&program.args(words).exec()),
            Err(failure) => failure,
        }
    }

    fn cannot_run(self, error: &io::Error) -> Failure {
        Failure::usage(format!("{} cannot be run: {error}", self.name))
    }
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
    let mut command = CHECK.program()?;
    command.args(["counts", name, "--json"]).args(is_small.then_some("--small"));
    let output = command.output().map_err(|error| CHECK.cannot_run(&error))?;
    if !output.status.success() {
        return Err(Failure::check(String::from_utf8_lossy(&output.stderr).trim().to_string()));
    }
    let counts: Counts = serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::check(format!("{} counts: {error}", CHECK.name)))?;
    Ok(counts.counts)
}
