//! PVH's start information, as the boot loader passes it. Source: Xen's
//! `public/arch-x86/hvm/start_info.h`.
//!
//! The loader is trusted as far as addresses of its own structures go (nothing could be checked without
//! them); their description of memory is not. What it has put into memory stays as it is, because
//! [`Loader::boot_map`], which says what memory the library gets, leaves it out.

use super::ports::Port;
use super::{MACHINE, space};
use core::ops::Range;
use interleaf::frame::BootMap;
use interleaf::units::PhysAddr;
use interleaf_kernel::core::firmware::{self, MAX_ENTRIES, MapError, MemoryEntry};

const MAGIC: u32 = 0x336e_c578;
/// Bytes of a memory map's entry.
const ENTRY_BYTES: usize = 24;
/// The longest command line.
const MAX_LINE: usize = 4096;

/// The first MiB stays the firmware's, the trampoline's (`boot`) and that of a handler for a test (`smi`).
const FIRST_MIB: Range<u64> = 0..1 << 20;

/// The address of PVH's start information, as the loader passed it.
#[derive(Debug)]
pub struct StartInfo(u32);

impl StartInfo {
    /// # Safety
    /// A PVH loader has started the machine with this address: the structure there, and all that it names,
    /// are as the protocol says, lie below 4 GiB (a module anywhere in memory), and nothing else writes them.
    pub(super) unsafe fn new(at: u32) -> Self {
        Self(at)
    }
}

/// The loader's data.
#[derive(Debug)]
pub struct Loader {
    /// The command line.
    pub line: &'static str,
    /// The memory map, unchecked.
    memory: [MemoryEntry; MAX_ENTRIES],
    /// Number of its entries, those that do not fit included.
    nr_entries: usize,
    /// Where the first module lies.
    module: Range<u64>,
    /// Memory that the loader's own structures take.
    own: [Range<u64>; 3],
}

/// Reads a little-endian number of `bytes`.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

impl Loader {
    /// Reads the structure.
    ///
    /// # Errors
    /// A description of the first error in it.
    pub fn read(StartInfo(at): StartInfo) -> Result<Self, &'static str> {
        let at = PhysAddr(at.into());
        // SAFETY: by `StartInfo` the loader has put its structures into memory below 4 GiB, which the boot
        // tables map, and does not run any more. `own` and `boot_map` keep the range from the library.
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
        // SAFETY: the structure's word for the list of modules.
        let module = if number(&info[12..16]) > 0 { unsafe { module_at(modules) } } else { 0..0 };
        // SAFETY: the structure's words for the map and its length.
        let memory = unsafe { entries(map, nr_entries) };
        // SAFETY: the structure's word for the command line.
        let line = unsafe { line(line_at) }?;
        let own = [
            at.0..at.0 + 56,
            map..map + (nr_entries * ENTRY_BYTES) as u64,
            line_at..line_at + MAX_LINE as u64,
        ];
        Ok(Self { line, memory, nr_entries, module, own })
    }

    /// The memory for the library: what is usable below `limit`, but for the first MiB, the kernel's image,
    /// the loader's structures and the module.
    ///
    /// It may be claimed from the machine afterwards.
    ///
    /// # Errors
    /// The first thing wrong with the memory map.
    ///
    /// # Panics
    /// The second time.
    pub fn boot_map(&self, limit: u64) -> Result<BootMap, MapError> {
        let [info, list, line] = self.own.clone();
        let taken = [FIRST_MIB, self.module.clone(), info, list, line];
        let limit = limit.min(space::reach());
        let map = firmware::boot_map(self.entries(), &space::image_memory(), &taken, limit)?;
        // SAFETY: by `StartInfo` the map tells what RAM there is, and nothing uses it but those that are left
        // out; the boot tables map what lies below the limit, and the kernel's tables map all RAM.
        unsafe { MACHINE.offer_memory(map.clone()) };
        Ok(map)
    }

    /// Number of the memory map's entries, those that do not fit included.
    pub fn nr_entries(&self) -> usize {
        self.nr_entries
    }

    /// The memory map.
    pub fn entries(&self) -> &[MemoryEntry] {
        &self.memory[..self.nr_entries.min(MAX_ENTRIES)]
    }

    /// The module's bytes.
    pub fn module(&self) -> &'static [u8] {
        let (start, len) = (PhysAddr(self.module.start), (self.module.end - self.module.start) as usize);
        // SAFETY: by `StartInfo` the loader put it into RAM, which is mapped; `boot_map` keeps the range from
        // the library, so it is not written.
        unsafe { space::firmware_bytes(start, len) }
    }
}

/// # Safety
/// The loader's list of modules is there, and is not empty.
unsafe fn module_at(list: u64) -> Range<u64> {
    // SAFETY: the caller's promise; by `StartInfo` the list is mapped and not written. It is read here and
    // never again.
    let entry = unsafe { space::firmware_bytes(PhysAddr(list), 16) };
    let (start, len) = (number(&entry[..8]), number(&entry[8..]));
    start..start.saturating_add(len)
}

/// # Safety
/// The loader's command line is there, unless `at` is 0.
unsafe fn line(at: u64) -> Result<&'static str, &'static str> {
    if at == 0 {
        return Ok("");
    }
    // SAFETY: the caller's promise; by `StartInfo` the line is mapped and not written, and `own` and
    // `boot_map` keep the longest one from the library.
    let bytes = unsafe { space::firmware_bytes(PhysAddr(at), MAX_LINE) };
    let len = bytes.iter().position(|&byte| byte == 0).ok_or("the command line is too long")?;
    core::str::from_utf8(&bytes[..len]).map_err(|_| "the command line is not text")
}

/// # Safety
/// The loader's memory map is there, with `nr` entries.
unsafe fn entries(at: u64, nr: usize) -> [MemoryEntry; MAX_ENTRIES] {
    // SAFETY: the caller's promise; by `StartInfo` the map is mapped and not written.
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
    // SAFETY: the device's selector and data ports access no memory (that is done through others) and raise
    // no interrupt.
    let (select, data) = unsafe { (Port::new(SELECT), Port::new(DATA)) };
    let read = |key: u16, bytes: &mut [u8]| {
        select.write_u16(key);
        bytes.iter_mut().for_each(|byte| *byte = data.read_u8());
    };
    let (mut signature, mut count) = ([0; 4], [0; 2]);
    read(0, &mut signature);
    read(5, &mut count);
    (signature == *b"QEMU").then(|| u16::from_le_bytes(count).into())
}
