//! How much memory a machine is given: `64M` to `64G`, as QEMU writes it.

use std::fmt;
use std::str::FromStr;

/// A size in whole MiB, within what the kernel boots with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Memory {
    mib: u64,
}

/// The least and the most, MiB.
const LEAST_MIB: u64 = 64;
const MOST_MIB: u64 = 64 << 10;

impl Memory {
    /// Bytes.
    pub fn bytes(self) -> u64 {
        self.mib << 20
    }
}

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Memory, String> {
        let refuse = || "a size from 64M to 64G, such as 256M or 2G".to_string();
        let shift = match text.bytes().last() {
            Some(b'M' | b'm') => 0,
            Some(b'G' | b'g') => 10,
            _ => return Err(refuse()),
        };
        let digits = &text[..text.len() - 1];
        let number: u64 = digits.parse().ok().filter(|_| !digits.starts_with('+')).ok_or_else(refuse)?;
        let mib = number.checked_mul(1 << shift).ok_or_else(refuse)?;
        if (LEAST_MIB..=MOST_MIB).contains(&mib) { Ok(Memory { mib }) } else { Err(refuse()) }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}M", self.mib)
    }
}

#[cfg(test)]
#[path = "tests/memory.rs"]
mod tests;
