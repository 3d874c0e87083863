//! Why a program is not recorded.

use super::privilege;
use std::fmt;
use std::io;

/// Why there is no recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The user may not: what is missing and how to get it.
    Privilege(String),
    /// The host cannot, or something failed.
    Host(String),
    /// The command cannot be run.
    Command(String),
    /// Something was lost, so that what is left is no trace.
    Lost(String),
}

impl Refusal {
    pub(super) fn host(what: impl Into<String>) -> Refusal {
        Refusal::Host(what.into())
    }

    pub(super) fn lost(what: impl Into<String>) -> Refusal {
        Refusal::Lost(what.into())
    }

    pub(super) fn privilege() -> Refusal {
        let missing = match privilege::missing() {
            none if none.is_empty() => "a permission the kernel does not name".into(),
            some => some.join(" and "),
        };
        let line = privilege::setcap_line();
        Refusal::Privilege(format!("recording needs {missing}; run: {line}; or record less with --user"))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Privilege(what) | Refusal::Host(what) | Refusal::Command(what) => f.write_str(what),
            Refusal::Lost(what) => write!(f, "the recording is not whole: {what}"),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        Refusal::Host(error.to_string())
    }
}
