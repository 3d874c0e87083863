//! PVH's start information, as the boot loader passes it. Source: Xen's
//! `public/arch-x86/hvm/start_info.h`.
//!
//! The loader is trusted as far as addresses of its own structures go (nothing could be checked without
//! them); their description of memory is not.

use super::{ports, space};
use core::ops::Range;
use interleaf::units::PhysAddr;
use interleaf_kernel::core::firmware::{MAX_ENTRIES, MemoryEntry};

const MAGIC: u32 = 0x336e_c578;
/// Bytes of a memory map's entry.
const ENTRY_BYTES: usize = 24;
/// The longest command line.
const MAX_LINE: usize = 4096;

/// The loader's data.
#[derive(Debug)]
pub struct Loader {
    /// The command line.
    pub line: &'static str,
    /// The memory map, unchecked.
    pub memory: [MemoryEntry; MAX_ENTRIES],
    /// Number of its entries, those that do not fit included.
    pub nr_entries: usize,
    /// Where the first module lies.
    pub module: Range<u64>,
    /// Memory that the loader's own structures take.
    pub own: [Range<u64>; 3],
}

/// Reads a little-endian number of `bytes`.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

impl Loader {
    /// Reads the structure at `at`.
    ///
    /// # Errors
    /// A description of the first error in it.
    pub fn read(at: u32) -> Result<Self, &'static str> {
        let at = PhysAddr(at.into());
        // SAFETY: the loader puts its structures into memory below 4 GiB, which is mapped, and does not run
        // any more. The range is kept from the library by `own`.
        let info = unsafe { space::firmware_bytes(at, 56) };
        if number(&info[..4]) != u64::from(MAGIC) {
            return Err("not started by a PVH loader");
        }
        if number(&info[4..8]) == 0 {
            return Err("the PVH loader hands over no memory map");
        }
        let (modules, map) = (number(&info[16..24]), number(&info[40..48]));
        let line_at = number(&info[24..32]);
        let nr_entries = number(&info[48..52]) as usize;
        let module = if number(&info[12..16]) > 0 { module_at(modules) } else { 0..0 };
        let own = [
            at.0..at.0 + 56,
            map..map + (nr_entries * ENTRY_BYTES) as u64,
            line_at..line_at + MAX_LINE as u64,
        ];
        Ok(Self { line: line(line_at)?, memory: entries(map, nr_entries), nr_entries, module, own })
    }

    /// The memory map.
    pub fn entries(&self) -> &[MemoryEntry] {
        &self.memory[..self.nr_entries.min(MAX_ENTRIES)]
    }

    /// The module's bytes.
    pub fn module(&self) -> &'static [u8] {
        let (start, len) = (PhysAddr(self.module.start), (self.module.end - self.module.start) as usize);
        // SAFETY: the loader put it into RAM, which is mapped; the range is kept from the library, so it is
        // not written.
        unsafe { space::firmware_bytes(start, len) }
    }
}

fn module_at(list: u64) -> Range<u64> {
    // SAFETY: as `read`.
    let entry = unsafe { space::firmware_bytes(PhysAddr(list), 16) };
    let (start, len) = (number(&entry[..8]), number(&entry[8..]));
    start..start.saturating_add(len)
}

fn line(at: u64) -> Result<&'static str, &'static str> {
    if at == 0 {
        return Ok("");
    }
    // SAFETY: as `read`.
    let bytes = unsafe { space::firmware_bytes(PhysAddr(at), MAX_LINE) };
    let len = bytes.iter().position(|&byte| byte == 0).ok_or("the command line is too long")?;
    core::str::from_utf8(&bytes[..len]).map_err(|_| "the command line is not text")
}

fn entries(at: u64, nr: usize) -> [MemoryEntry; MAX_ENTRIES] {
    // SAFETY: as `read`.
    let bytes = unsafe { space::firmware_bytes(PhysAddr(at), nr.min(MAX_ENTRIES) * ENTRY_BYTES) };
    let mut entries = [MemoryEntry::default(); MAX_ENTRIES];
    for (entry, bytes) in entries.iter_mut().zip(bytes.chunks_exact(ENTRY_BYTES)) {
        let kind = number(&bytes[16..20]) as u32;
        *entry = MemoryEntry { start: number(&bytes[..8]), len_bytes: number(&bytes[8..16]), kind };
    }
    entries
}

/// Number of CPUs, from QEMU's firmware device; `None` where there is no such device.
pub fn nr_cpus() -> Option<u32> {
    const SELECT: u16 = 0x510;
    const DATA: u16 = 0x511;
    // SAFETY: the device's selector and data ports; reading them touches no memory.
    let read = |key: u16, bytes: &mut [u8]| unsafe {
        ports::write_u16(SELECT, key);
        bytes.iter_mut().for_each(|byte| *byte = ports::read_u8(DATA));
    };
    let (mut signature, mut count) = ([0; 4], [0; 2]);
    read(0, &mut signature);
    read(5, &mut count);
    (signature == *b"QEMU").then(|| u16::from_le_bytes(count).into())
}
