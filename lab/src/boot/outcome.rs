//! What a machine's last status means.
//!
//! The kernel ends the machine through QEMU's `isa-debug-exit` device: it writes a value `v`, and QEMU ends
//! with status `v << 1 | 1`. An orderly end writes `0x10 + code`, a panic `0x7f`. Any other status was never
//! written by the kernel: 0 is a machine that reset or switched itself off (`-no-reboot` makes a triple fault
//! one), 1 is QEMU refusing its own command line.

use serde::Serialize;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// How a boot ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// In order, with the exit code of the program or of the self-tests.
    Ended {
        /// 0 if everything held.
        code: u8,
    },
    /// The kernel panicked, and said where on its console.
    Panicked,
    /// The machine reset: a triple fault, or a kernel that switched it off without a verdict.
    Reset,
    /// No verdict in time.
    TimedOut,
    /// QEMU did not start the machine; its own message.
    Refused {
        /// The last line it printed.
        reason: String,
    },
    /// QEMU was killed by a signal that the lab did not send.
    Killed {
        /// The signal's number.
        signal: i32,
    },
    /// A status that the kernel never writes.
    Odd {
        /// QEMU's status.
        status: i32,
    },
}

/// The value of an orderly end with exit code 0.
const ORDERLY: i32 = 0x10;
/// The largest exit code.
const MOST_CODE: i32 = 0x3f;
/// The value of a panic.
const PANIC: i32 = 0x7f;

impl Outcome {
    /// Reads QEMU's status; `complaint` is the last line QEMU printed on its own account.
    pub fn of(status: ExitStatus, complaint: &str) -> Outcome {
        let Some(code) = status.code() else {
            return Outcome::Killed { signal: status.signal().unwrap_or(0) };
        };
        let value = code >> 1;
        match code {
            0 => Outcome::Reset,
            1 => Outcome::Refused { reason: complaint.to_string() },
            _ if code & 1 == 0 => Outcome::Odd { status: code },
            _ if value == PANIC => Outcome::Panicked,
            _ if (ORDERLY..=ORDERLY + MOST_CODE).contains(&value) => {
                Outcome::Ended { code: (value - ORDERLY) as u8 }
            }
            _ => Outcome::Odd { status: code },
        }
    }

    /// The exit code of an orderly end, or one line that says why there is none.
    pub fn code(&self, timeout_s: u64) -> Result<u8, String> {
        Err(match self {
            Outcome::Ended { code } => return Ok(*code),
            Outcome::Panicked => "the kernel panicked: its console says where".to_string(),
            Outcome::Reset => "the machine reset without a verdict: a triple fault".to_string(),
            Outcome::TimedOut => format!("no verdict after {timeout_s} s: --timeout gives it longer"),
            Outcome::Refused { reason } if reason.is_empty() => {
                "QEMU refused, and did not say why".to_string()
            }
            Outcome::Refused { reason } => format!("QEMU refused: {reason}"),
            Outcome::Killed { signal } => format!("QEMU was killed by signal {signal}"),
            Outcome::Odd { status } => {
                format!("QEMU ended with status {status}, which the kernel never writes")
            }
        })
    }
}

#[cfg(test)]
#[path = "tests/outcome.rs"]
mod tests;
