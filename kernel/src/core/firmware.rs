//! The firmware's memory map, made into the library's [`BootMap`]. It is not trusted.

use core::fmt;
use core::ops::Range;
use interleaf::frame::{BootError, BootMap, Init, MAX_PHYS_BITS, Region, RegionKind};
use interleaf::units::{NodeId, PAGE_SIZE, PhysAddr};

/// One entry of the firmware's map. `kind` is 1 for memory that may be used; other kinds are reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEntry {
    /// First byte.
    pub start: u64,
    /// Bytes.
    pub len_bytes: u64,
    /// Its kind, in e820's numbers.
    pub kind: u32,
}

/// e820's number for usable memory.
const USABLE: u32 = 1;

/// Most entries of a map: e820's classic limit.
pub const MAX_ENTRIES: usize = 128;

/// Why a memory map is refused. `entry` counts from 0 in the firmware's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// More entries than [`MAX_ENTRIES`].
    TooManyEntries(usize),
    /// The entry wraps around, or ends beyond the addresses of a table entry.
    BeyondAddresses {
        /// Which.
        entry: usize,
    },
    /// Two entries cover the same memory, and one of them is usable.
    Contradiction {
        /// The first byte of both entries.
        at: u64,
    },
    /// The kernel does not lie in usable memory.
    ImageOutside,
    /// The library refuses the remaining memory.
    Boot(BootError),
}

impl From<BootError> for MapError {
    fn from(error: BootError) -> Self {
        MapError::Boot(error)
    }
}

/// A list of byte ranges without allocation.
struct Ranges {
    ranges: [(u64, u64); BootMap::MAX_REGIONS],
    len: usize,
}

impl Ranges {
    fn new() -> Self {
        Self { ranges: [(0, 0); BootMap::MAX_REGIONS], len: 0 }
    }

    fn push(&mut self, start: u64, end: u64) -> Result<(), MapError> {
        let slot = self.ranges.get_mut(self.len).ok_or(MapError::Boot(BootError::TooManyRegions))?;
        *slot = (start, end);
        self.len += 1;
        Ok(())
    }

    fn as_slice(&self) -> &[(u64, u64)] {
        &self.ranges[..self.len]
    }

    /// The same without `taken`.
    fn without(&self, taken: &Range<u64>) -> Result<Self, MapError> {
        let mut left = Self::new();
        for &(start, end) in self.as_slice() {
            let below = (start, end.min(taken.start));
            let above = (start.max(taken.end), end);
            if taken.is_empty() || taken.end <= start || end <= taken.start {
                left.push(start, end)?;
                continue;
            }
            for (start, end) in [below, above].into_iter().filter(|(start, end)| start < end) {
                left.push(start, end)?;
            }
        }
        Ok(left)
    }
}

/// The usable memory that `entries` describe, in ascending order, contradictions refused. Calls `tell` with
/// each range.
///
/// # Errors
/// The first thing wrong with the map.
pub fn each_usable(entries: &[MemoryEntry], mut tell: impl FnMut(Range<u64>)) -> Result<(), MapError> {
    let sorted = usable(entries)?;
    sorted.as_slice().iter().for_each(|&(start, end)| tell(start..end));
    Ok(())
}

/// The boot map: usable memory in whole frames below `limit`, less what is `taken` (the first MiB, the image,
/// modules).
///
/// # Errors
/// The first thing wrong with the map; `image` must lie in usable memory, or the map is not this machine's.
pub fn boot_map(
    entries: &[MemoryEntry],
    image: &Range<u64>,
    taken: &[Range<u64>],
    limit: u64,
) -> Result<BootMap, MapError> {
    let mut left = usable(entries)?;
    if !left.as_slice().iter().any(|&(start, end)| start <= image.start && image.end <= end) {
        return Err(MapError::ImageOutside);
    }
    left = left.without(image)?.without(&(limit..u64::MAX))?;
    for range in taken {
        left = left.without(&whole_frames_around(range))?;
    }
    let nothing =
        Region { start: PhysAddr(0), len_bytes: 0, kind: RegionKind::Usable(Init::Dirty), node: NodeId(0) };
    let (mut regions, mut len) = ([nothing; BootMap::MAX_REGIONS], 0);
    for &(start, end) in left.as_slice() {
        let (start, end) = (start.next_multiple_of(PAGE_SIZE as u64), end & !(PAGE_SIZE as u64 - 1));
        if start < end {
            regions[len] = Region { start: PhysAddr(start), len_bytes: end - start, ..nothing };
            len += 1;
        }
    }
    if len == 0 {
        return Err(MapError::Boot(BootError::NoMemory));
    }
    Ok(BootMap::new(&regions[..len])?)
}

fn whole_frames_around(range: &Range<u64>) -> Range<u64> {
    let mask = PAGE_SIZE as u64 - 1;
    range.start & !mask..range.end.saturating_add(mask) & !mask
}

/// Usable ranges, sorted; no byte of them lies in two entries.
fn usable(entries: &[MemoryEntry]) -> Result<Ranges, MapError> {
    if entries.len() > MAX_ENTRIES {
        return Err(MapError::TooManyEntries(entries.len()));
    }
    let mut found = Ranges::new();
    for (entry, span) in entries.iter().enumerate().filter(|(_, span)| span.len_bytes > 0) {
        // Firmware may reserve the end of the address space; only memory must be addressable.
        let end = span.start.checked_add(span.len_bytes).ok_or(MapError::BeyondAddresses { entry })?;
        if span.kind == USABLE {
            if end > 1 << MAX_PHYS_BITS {
                return Err(MapError::BeyondAddresses { entry });
            }
            found.push(span.start, end)?;
        }
    }
    let len = found.len;
    found.ranges[..len].sort_unstable();
    for &(start, end) in found.as_slice() {
        let claims =
            |span: &&MemoryEntry| span.start < end && start < span.start.saturating_add(span.len_bytes);
        let mut claimed = entries.iter().filter(|span| span.len_bytes > 0).filter(claims);
        let (own, other) = (claimed.next(), claimed.next());
        if let (Some(own), Some(other)) = (own, other) {
            return Err(MapError::Contradiction { at: own.start.max(other.start) });
        }
    }
    Ok(found)
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapError::TooManyEntries(n) => write!(f, "it has {n} entries, more than {MAX_ENTRIES}"),
            MapError::BeyondAddresses { entry } => {
                write!(f, "its entry {entry} ends beyond {MAX_PHYS_BITS} bits of physical address")
            }
            MapError::Contradiction { at } => write!(f, "two of its entries claim the byte at {at:#x}"),
            MapError::ImageOutside => {
                f.write_str("the kernel's image does not lie in memory that it calls usable")
            }
            MapError::Boot(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for MapError {}

#[cfg(test)]
#[path = "tests/firmware.rs"]
mod tests;
