//! The programs that may run in ring 3: one static ELF file for x86-64, linked to fixed addresses.
//!
//! The kernel checks the file itself; this check reports in one line what is wrong before a machine is
//! started. Every offset comes from the file, so each is looked up with `get` and added with overflow in
//! mind.

use super::Memory;
use std::path::Path;
use std::{fmt, fs, io};

/// Why a file cannot be run.
#[derive(Debug)]
pub enum ElfError {
    /// It cannot be read.
    Unread(io::Error),
    /// It does not begin as ELF files do.
    NoElf,
    /// It is for another machine than 64-bit x86.
    OtherMachine,
    /// It needs a dynamic loader, or is position-independent.
    NotStatic,
    /// A header or a segment lies outside of the file, or beyond user memory.
    Damaged(&'static str),
    /// It does not leave half of the memory free.
    TooLarge(u64),
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ElfError::Unread(error) => write!(f, "{error}"),
            ElfError::NoElf => write!(f, "not an ELF file"),
            ElfError::OtherMachine => write!(f, "an ELF file, but not for 64-bit x86"),
            ElfError::NotStatic => write!(f, "not a static program: link it with -static -no-pie"),
            ElfError::Damaged(what) => write!(f, "a damaged ELF file: {what}"),
            ElfError::TooLarge(bytes) => {
                write!(f, "{bytes} bytes take more than half of the machine's memory")
            }
        }
    }
}

/// The first address that no program may use: half a page short of the lower half's end, as Linux has it.
const USER_END: u64 = 0x7fff_ffff_f000;
/// Kinds of program headers.
const LOAD: u32 = 1;
const INTERPRETER: u32 = 3;
/// The flag of a segment that may be executed.
const EXECUTABLE: u32 = 1;
/// Bytes of a program header.
const HEADER_BYTES: usize = 56;

/// Checks the file at `path` for a machine with `memory`.
pub fn check(path: &Path, memory: Memory) -> Result<(), ElfError> {
    let length = fs::metadata(path).map_err(ElfError::Unread)?.len();
    if length > memory.bytes() / 2 {
        return Err(ElfError::TooLarge(length));
    }
    check_bytes(&fs::read(path).map_err(ElfError::Unread)?)
}

/// Checks the bytes of a file.
pub(crate) fn check_bytes(file: &[u8]) -> Result<(), ElfError> {
    if file.get(..4) != Some(b"\x7fELF") {
        return Err(ElfError::NoElf);
    }
    let cut = || ElfError::Damaged("its header is cut off");
    let (class, order) = (file.get(4).ok_or_else(cut)?, file.get(5).ok_or_else(cut)?);
    if (*class, *order, half(file, 18).ok_or_else(cut)?) != (2, 1, 62) {
        return Err(ElfError::OtherMachine);
    }
    let kind = half(file, 16).ok_or_else(cut)?;
    let headers = program_headers(file)?;
    if headers.iter().any(|h| h.kind == INTERPRETER) || kind == 3 {
        return Err(ElfError::NotStatic);
    }
    if kind != 2 {
        return Err(ElfError::Damaged("it is no program"));
    }
    check_segments(file, &headers)
}

fn check_segments(file: &[u8], headers: &[Header]) -> Result<(), ElfError> {
    let entry = long(file, 24).ok_or(ElfError::Damaged("its header is cut off"))?;
    let mut can_start = false;
    for header in headers.iter().filter(|h| h.kind == LOAD) {
        let in_file =
            header.offset.checked_add(header.file_bytes).is_some_and(|end| end <= file.len() as u64);
        if !in_file || header.file_bytes > header.memory_bytes {
            return Err(ElfError::Damaged("a segment lies outside of it"));
        }
        let end = header.address.checked_add(header.memory_bytes).filter(|end| *end <= USER_END);
        let end = end.ok_or(ElfError::Damaged("a segment lies beyond user memory"))?;
        can_start |= header.flags & EXECUTABLE != 0 && (header.address..end).contains(&entry);
    }
    if can_start { Ok(()) } else { Err(ElfError::Damaged("it begins where nothing may be executed")) }
}

/// What is wanted of a program header.
struct Header {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    file_bytes: u64,
    memory_bytes: u64,
}

fn program_headers(file: &[u8]) -> Result<Vec<Header>, ElfError> {
    let cut = || ElfError::Damaged("its program headers are cut off");
    let table = long(file, 32).and_then(|o| usize::try_from(o).ok()).ok_or_else(cut)?;
    let (size, count) = (half(file, 54).ok_or_else(cut)?, half(file, 56).ok_or_else(cut)?);
    if usize::from(size) != HEADER_BYTES {
        return Err(ElfError::Damaged("its program headers have an odd size"));
    }
    (0..usize::from(count)).map(|index| header(file, table, index).ok_or_else(cut)).collect()
}

fn header(file: &[u8], table: usize, index: usize) -> Option<Header> {
    let at = table.checked_add(index * HEADER_BYTES)?;
    let bytes = file.get(at..at.checked_add(HEADER_BYTES)?)?;
    Some(Header {
        kind: word(bytes, 0)?,
        flags: word(bytes, 4)?,
        offset: long(bytes, 8)?,
        address: long(bytes, 16)?,
        file_bytes: long(bytes, 32)?,
        memory_bytes: long(bytes, 40)?,
    })
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// A small program that is good: one executable segment that begins at its entry.
#[cfg(test)]
pub fn good_program() -> Vec<u8> {
    let mut file = vec![0; 64 + HEADER_BYTES + 8];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"\x7fELF\x02\x01\x01");
    put(16, &[2, 0, 62, 0, 1]);
    put(24, &0x40_0078u64.to_le_bytes());
    put(32, &64u64.to_le_bytes());
    put(54, &[HEADER_BYTES as u8, 0, 1, 0]);
    put(64, &[LOAD as u8, 0, 0, 0, 5]);
    put(64 + 16, &0x40_0000u64.to_le_bytes());
    put(64 + 32, &128u64.to_le_bytes());
    put(64 + 40, &4096u64.to_le_bytes());
    file
}

#[cfg(test)]
#[path = "tests/elf.rs"]
mod tests;
