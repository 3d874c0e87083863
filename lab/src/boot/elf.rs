//! The programs that may run in ring 3: one static ELF file for x86-64, linked to fixed addresses or to any.
//!
//! The kernel checks the file itself, by the same code; this check reports in one line what is wrong before a
//! machine is started.

use super::Memory;
use interleaf::units::VirtAddr;
use interleaf_linux_abi::elf::{ElfError, Program};
use std::path::Path;
use std::{fmt, fs, io};

/// Why a file cannot be run.
#[derive(Debug)]
pub enum Unfit {
    /// It cannot be read.
    Unread(io::Error),
    /// It is no program that the kernel runs.
    Elf(ElfError),
    /// It does not leave half of the memory free.
    TooLarge(u64),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Unread(error) => write!(f, "{error}"),
            Unfit::Elf(error) => write!(f, "{error}"),
            Unfit::TooLarge(bytes) => {
                write!(f, "{bytes} bytes take more than half of the machine's memory")
            }
        }
    }
}

/// The first address that no program may use: a page short of the lower half's end, as Linux has it.
const USER_END: VirtAddr = VirtAddr(0x7fff_ffff_f000);

/// Checks the file at `path` for a machine with `memory`.
pub fn check(path: &Path, memory: Memory) -> Result<(), Unfit> {
    let length = fs::metadata(path).map_err(Unfit::Unread)?.len();
    if length > memory.bytes() / 2 {
        return Err(Unfit::TooLarge(length));
    }
    check_bytes(&fs::read(path).map_err(Unfit::Unread)?).map_err(Unfit::Elf)
}

/// Checks the bytes of a file.
pub fn check_bytes(file: &[u8]) -> Result<(), ElfError> {
    Program::parse(file, USER_END).map(drop)
}

#[cfg(test)]
#[path = "tests/elf.rs"]
mod tests;
