//! Why a trace was refused: one line that names the byte.

use std::fmt;
use std::io;

/// A damaged trace file, and where the damage is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Byte offset in the file of the first thing that is wrong: of the block, where a block's content is.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

impl Damage {
    /// Damage at `offset`.
    pub fn at(offset: u64, what: impl Into<String>) -> Damage {
        Damage { offset, what: what.into() }
    }

    /// A read that failed at `offset`: the end of the file, or the host's own words.
    pub fn reading(offset: u64, what: &str, error: &io::Error) -> Damage {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Damage::at(offset, format!("the file ends inside {what}")),
            _ => Damage::at(offset, format!("{what} cannot be read: {error}")),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.offset, self.what)
    }
}

impl std::error::Error for Damage {}
