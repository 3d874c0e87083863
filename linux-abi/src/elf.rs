//! Static programs for x86-64, read from ELF files: the one check, for the kernel that loads a program and
//! for the command that hands it over. Programs that may lie anywhere (`-static-pie`) relocate themselves;
//! they lie at [`PIE_BASE`]. Sources: System V ABI (gABI) chapters 4 and 5, and its AMD64 supplement.
use core::fmt;
use interleaf::units::{PAGE_SIZE, VirtAddr};

/// A program that was checked: every segment lies in the file and in user space.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    file: &'a [u8],
    /// Entry address.
    pub entry: VirtAddr,
    /// Address of its program headers in memory; 0 where they are not loaded.
    pub headers_at: VirtAddr,
    /// Number of program headers.
    pub nr_headers: u16,
    offset: usize,
    /// What is added to the file's addresses.
    base: u64,
}

/// A segment to be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Its first address.
    pub at: VirtAddr,
    /// Its bytes in the file; zeroes follow up to `len_bytes`.
    pub bytes: &'a [u8],
    /// Its length in memory.
    pub len_bytes: u64,
    /// `PF_X`, `PF_W`, `PF_R`: 1, 2, 4.
    pub flags: u32,
}

/// Why a file is not a program that can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfError {
    /// Too short, or not ELF at all.
    NotElf,
    /// ELF, but not of 64 bits, little-endian, for x86-64.
    OtherMachine,
    /// ELF, but no program: an object file or a core.
    NoProgram,
    /// Needs a loader: link it with `-static` or `-static-pie`.
    NotStatic,
    /// A header or segment lies outside of the file.
    Truncated,
    /// A segment lies outside of user space, is larger in the file than in memory, or needs an alignment that
    /// no base has.
    BadSegment,
    /// Nothing to load.
    Empty,
    /// Begins at an address where no segment may be executed.
    BadEntry,
}

const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
const LOAD: u32 = 1;
const INTERPRETER: u32 = 3;
const FIXED_PROGRAM: u16 = 2;
/// Position-independent: a library, or a program that a loader places.
const SHARED_OBJECT: u16 = 3;
/// The flag of a segment that may be executed.
const EXECUTABLE: u32 = 1;
const X86_64: u16 = 62;

/// Where a program lies that may lie anywhere, but for its alignment: Linux's ELF_ET_DYN_BASE, two thirds of
/// user space, without its random part.
pub const PIE_BASE: u64 = 0x5555_5555_4000;

impl<'a> Program<'a> {
    /// Checks a file.
    ///
    /// # Errors
    /// The first error in it. Segments must lie below `end`, the end of user space.
    pub fn parse(file: &'a [u8], end: VirtAddr) -> Result<Self, ElfError> {
        if file.len() < HEADER_BYTES || file[..4] != *b"\x7fELF" {
            return Err(ElfError::NotElf);
        }
        if file[4] != 2 || file[5] != 1 || half(file, 18) != X86_64 {
            return Err(ElfError::OtherMachine);
        }
        let may_lie_anywhere = match half(file, 16) {
            FIXED_PROGRAM => false,
            SHARED_OBJECT => true,
            _ => return Err(ElfError::NoProgram),
        };
        let offset = usize::try_from(long(file, 32)).map_err(|_| ElfError::Truncated)?;
        let nr_headers = half(file, 56);
        let table_end = offset.checked_add(usize::from(nr_headers) * SEGMENT_BYTES);
        if half(file, 54) as usize != SEGMENT_BYTES || table_end.is_none_or(|end| end > file.len()) {
            return Err(ElfError::Truncated);
        }
        let mut program =
            Self { file, entry: VirtAddr(0), headers_at: VirtAddr(0), nr_headers, offset, base: 0 };
        if may_lie_anywhere {
            program.base = PIE_BASE & !(program.alignment()? - 1);
        }
        program.entry = VirtAddr(long(file, 24).checked_add(program.base).ok_or(ElfError::BadEntry)?);
        program.check(end)?;
        Ok(program)
    }

    /// The largest alignment of a segment, a page at least. What is no power of two is none, as to Linux.
    fn alignment(&self) -> Result<u64, ElfError> {
        let loads = self.headers().filter(|header| int(header, 0) == LOAD);
        let alignments = loads.map(|header| long(header, 48)).filter(|alignment| alignment.is_power_of_two());
        let largest = alignments.max().unwrap_or(0).max(PAGE_SIZE as u64);
        if largest <= PIE_BASE { Ok(largest) } else { Err(ElfError::BadSegment) }
    }

    fn check(&mut self, end: VirtAddr) -> Result<(), ElfError> {
        let (mut loads, mut can_start) = (0, false);
        for header in self.headers() {
            if int(header, 0) == INTERPRETER {
                return Err(ElfError::NotStatic);
            }
            if int(header, 0) != LOAD {
                continue;
            }
            let (from, in_file, in_memory) = (long(header, 8), long(header, 32), long(header, 40));
            let at = long(header, 16).checked_add(self.base).ok_or(ElfError::BadSegment)?;
            let in_bounds = from.checked_add(in_file).is_some_and(|end| end <= self.file.len() as u64);
            if !in_bounds {
                return Err(ElfError::Truncated);
            }
            let is_user = at.checked_add(in_memory).is_some_and(|last| last <= end.0);
            if in_file > in_memory || !is_user || at < PAGE_SIZE as u64 {
                return Err(ElfError::BadSegment);
            }
            let table = self.offset as u64;
            if (from..from + in_file).contains(&table) {
                self.headers_at = VirtAddr(at + (table - from));
            }
            can_start |= int(header, 4) & EXECUTABLE != 0 && (at..at + in_memory).contains(&self.entry.0);
            loads += 1;
        }
        match (loads, can_start) {
            (0, _) => Err(ElfError::Empty),
            (_, false) => Err(ElfError::BadEntry),
            (_, true) => Ok(()),
        }
    }

    fn headers(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let count = usize::from(self.nr_headers);
        self.file[self.offset..].chunks_exact(SEGMENT_BYTES).take(count)
    }

    /// The segments to be loaded, in the file's order; empty ones are none.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'a>> + use<'a> {
        let (file, base) = (self.file, self.base);
        let is_loaded = |header: &&[u8]| int(header, 0) == LOAD && long(header, 40) > 0;
        self.headers().filter(is_loaded).map(move |header| {
            let (from, len) = (long(header, 8) as usize, long(header, 32) as usize);
            Segment {
                at: VirtAddr(base + long(header, 16)),
                bytes: &file[from..from + len],
                len_bytes: long(header, 40),
                flags: int(header, 4),
            }
        })
    }

    /// The first address after all segments: where the heap may start.
    pub fn end(&self) -> VirtAddr {
        self.segments().map(|segment| VirtAddr(segment.at.0 + segment.len_bytes)).max().unwrap_or_default()
    }
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn int(bytes: &[u8], at: usize) -> u32 {
    u32::from(half(bytes, at)) | u32::from(half(bytes, at + 2)) << 16
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(int(bytes, at)) | u64::from(int(bytes, at + 4)) << 32
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ElfError::NotElf => "not an ELF file",
            ElfError::OtherMachine => "an ELF file, but not for 64-bit x86",
            ElfError::NoProgram => "an ELF file, but no program",
            ElfError::NotStatic => "not a static program: link it with -static or -static-pie",
            ElfError::Truncated => "cut off: a header or segment lies outside of the file",
            ElfError::BadSegment => "a segment lies outside of user space",
            ElfError::Empty => "nothing in it to load",
            ElfError::BadEntry => "it begins where nothing may be executed",
        })
    }
}

impl core::error::Error for ElfError {}

#[cfg(test)]
#[path = "tests/elf.rs"]
mod tests;
