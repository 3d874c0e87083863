//! What a machine's last status and last words mean.
//!
//! The kernel ends the machine through QEMU's `isa-debug-exit` device: it writes a value `v`, and QEMU ends
//! with status `v << 1 | 1`. That leaves seven bits, too few for an exit code, so the code goes another way:
//! the kernel's last line on the debug console is `exit code N`. That console is QEMU's standard error
//! stream, has the kernel's other lines as well, and no program in ring 3 can reach it.
//!
//! | value | meaning |
//! |---|---|
//! | 0x10 | an orderly end, with the code that the debug console has |
//! | 0x11 | the program could not be loaded; the console says why |
//! | 0x12 | frames were lost; the console says how many |
//! | 0x7f | a panic |
//!
//! Any other status was never written by the kernel: 1 is QEMU refusing its own command line, and 0 is a
//! machine that reset, as after a triple fault (`-no-reboot`), or switched itself off, or no machine: QEMU
//! does not say which.

use serde::Serialize;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// How a boot ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// In order, with the exit code of the program or of the self-tests.
    Ended {
        /// As the program has it, 128 + the number of the signal that ended it; 0 for self-tests that held.
        code: u8,
    },
    /// The program could not be loaded.
    NotLoaded,
    /// The kernel lost frames.
    Leaked,
    /// The kernel panicked, and said where on its console.
    Panicked,
    /// QEMU ended with 0: the machine reset or was switched off without a verdict, or never ran.
    NoVerdict,
    /// No verdict in time.
    TimedOut,
    /// The console stayed silent, and KVM does not run the smallest guest either.
    Unusable {
        /// Why it does not.
        reason: String,
    },
    /// QEMU did not start the machine; its own message.
    Refused {
        /// The last line it printed.
        reason: String,
    },
    /// QEMU was killed by a signal that the lab did not send.
    Killed {
        /// The signal's number.
        signal: i32,
        /// The last line that QEMU printed; may be empty.
        reason: String,
    },
    /// A status that the kernel never writes, or an orderly end without a code.
    Odd {
        /// QEMU's status.
        status: i32,
        /// The last line that QEMU printed; may be empty.
        reason: String,
    },
}

/// Values of the kernel's for isa-debug-exit: the module's table.
const ORDERLY: i32 = 0x10;
const NOT_LOADED: i32 = 0x11;
const LEAKED: i32 = 0x12;
const PANIC: i32 = 0x7f;

/// What the kernel writes to the debug console before the exit code.
const CODE: &str = "exit code ";

/// Whether a line has the exit code.
pub fn is_exit_code(line: &[u8]) -> bool {
    let digits = line.strip_prefix(CODE.as_bytes()).and_then(|rest| rest.strip_suffix(b"\n"));
    digits.is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

impl Outcome {
    /// Reads QEMU's status, and what came on its standard error stream: the exit code, and messages of its
    /// own.
    pub fn of(status: ExitStatus, stderr: &str) -> Outcome {
        let lines = || stderr.lines().map(str::trim).filter(|line| !line.is_empty());
        let reason = || lines().rfind(|line| !line.starts_with(CODE)).unwrap_or_default().to_string();
        let Some(status) = status.code() else {
            return Outcome::Killed { signal: status.signal().unwrap_or(0), reason: reason() };
        };
        let exit_code = || lines().rev().find_map(|line| line.strip_prefix(CODE)?.parse().ok());
        match (status, status >> 1) {
            (0, _) => Outcome::NoVerdict,
            (1, _) => Outcome::Refused { reason: reason() },
            (odd, ORDERLY) if odd & 1 == 1 => {
                exit_code().map_or(Outcome::Odd { status, reason: reason() }, |code| Outcome::Ended { code })
            }
            (odd, NOT_LOADED) if odd & 1 == 1 => Outcome::NotLoaded,
            (odd, LEAKED) if odd & 1 == 1 => Outcome::Leaked,
            (odd, PANIC) if odd & 1 == 1 => Outcome::Panicked,
            _ => Outcome::Odd { status, reason: reason() },
        }
    }

    /// The exit code of an orderly end, or one line that says why there is none.
    pub fn code(&self, timeout_s: u64) -> Result<u8, String> {
        Err(match self {
            Outcome::Ended { code } => return Ok(*code),
            Outcome::Panicked => "the kernel panicked: its console says where".to_string(),
            Outcome::NoVerdict => {
                "QEMU ended with 0 and no verdict, as after a reset (a triple fault)".to_string()
            }
            Outcome::Unusable { reason } => {
                format!("KVM does not run the machine: {reason}; --accel tcg does without it")
            }
            Outcome::TimedOut => format!("no verdict after {timeout_s} s: --timeout gives it longer"),
            Outcome::Refused { reason } if reason.is_empty() => {
                "QEMU refused, and did not say why".to_string()
            }
            Outcome::Refused { reason } => format!("QEMU refused: {reason}"),
            Outcome::NotLoaded => "the kernel could not load the program: its console says why".to_string(),
            Outcome::Leaked => "the kernel lost frames: its console says how many".to_string(),
            Outcome::Killed { signal, reason } => {
                format!("QEMU was killed by signal {signal}{}", said(reason))
            }
            Outcome::Odd { status, reason } => {
                format!("QEMU ended with status {status}, which the kernel never writes{}", said(reason))
            }
        })
    }
}

/// QEMU's last line, if it printed one.
fn said(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

#[cfg(test)]
#[path = "tests/outcome.rs"]
mod tests;
