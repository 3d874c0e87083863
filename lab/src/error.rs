//! Why a command ended without success: one line for people, one status for scripts.

#![forbid(unsafe_code)]

use std::fmt;
use std::process::ExitCode;

/// The exit status a failure gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The command ran, and what it checks does not hold: status 1.
    Check,
    /// The command line, an input or the machine does not allow the command: status 2.
    Usage,
}

/// One clear line and an exit status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    status: Status,
    line: String,
}

impl Failure {
    /// What was checked does not hold (status 1).
    pub fn check(line: impl Into<String>) -> Failure {
        Failure { status: Status::Check, line: line.into() }
    }

    /// What was asked cannot be done: a bad argument, a damaged file, a missing privilege (status 2).
    pub fn usage(line: impl Into<String>) -> Failure {
        Failure { status: Status::Usage, line: line.into() }
    }

    /// A library call that the work needs was refused (status 1).
    pub fn of(error: impl std::error::Error) -> Failure {
        Failure::check(error.to_string())
    }

    /// Which status the process ends with.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Prints the line to stderr and returns the exit code.
    pub fn report(&self) -> ExitCode {
        eprintln!("interleaf: {self}");
        match self.status {
            Status::Check => ExitCode::from(1),
            Status::Usage => ExitCode::from(2),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl std::error::Error for Failure {}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::usage(error.to_string())
    }
}
