//! The firmware's memory map: untrusted, checked once. It describes; [`BootMap::claim`] makes
//! [`BootMemory`](super::BootMemory) of it, from which early memory is allocated, and
//! [`Memory`](crate::frame::Memory) gets the rest.

use super::BootError;
use crate::frame::Init;
use crate::units::{NodeId, PAGE_SIZE, PfnRange, PhysAddr};

/// Bits of the largest physical address that a table entry can hold.
pub const MAX_PHYS_BITS: u32 = 52;

/// Whether the library may use a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    /// The library may use it; its bytes start as said.
    Usable(Init),
    /// In use by firmware, devices or the embedder.
    Reserved,
}

/// A range of physical memory as firmware describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte; a multiple of 4096.
    pub start: PhysAddr,
    /// Bytes; a multiple of 4096 and not 0.
    pub len_bytes: u64,
    /// Whether the library may use it.
    pub kind: RegionKind,
    /// The node it belongs to.
    pub node: NodeId,
}

/// At most [`BootMap::MAX_REGIONS`] regions, sorted and disjoint.
#[derive(Clone, Debug)]
pub struct BootMap {
    regions: [Region; Self::MAX_REGIONS],
    len: usize,
}

/// Memory that has left a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::frame) struct BootPiece {
    pub start: PhysAddr,
    pub init: Init,
    pub node: NodeId,
}

const EMPTY_REGION: Region =
    Region { start: PhysAddr(0), len_bytes: 0, kind: RegionKind::Reserved, node: NodeId(0) };

impl Region {
    /// The whole frames of the region.
    pub fn frames(&self) -> PfnRange {
        let end = PhysAddr(self.start.0 + self.len_bytes);
        PfnRange::new(self.start.pfn(), end.pfn())
    }

    /// Initial contents of its bytes. `None` where it is not usable.
    pub fn usable(&self) -> Option<Init> {
        match self.kind {
            RegionKind::Usable(init) => Some(init),
            RegionKind::Reserved => None,
        }
    }

    fn check(&self, region: u8, before: u64, before_end: u64) -> Result<u64, BootError> {
        let mask = PAGE_SIZE as u64 - 1;
        if self.len_bytes == 0 {
            return Err(BootError::Empty { region });
        }
        if (self.start.0 | self.len_bytes) & mask != 0 {
            return Err(BootError::Unaligned { region });
        }
        let end = self.start.0.checked_add(self.len_bytes).filter(|&end| end <= 1 << MAX_PHYS_BITS);
        let Some(end) = end else { return Err(BootError::BeyondAddresses { region }) };
        if self.start.0 < before {
            return Err(BootError::Unsorted { region });
        }
        if self.start.0 < before_end {
            return Err(BootError::Overlap { region });
        }
        Ok(end)
    }
}

impl BootMap {
    /// The most regions that a map holds.
    pub const MAX_REGIONS: usize = 128;

    /// Checks the regions that firmware reports.
    ///
    /// # Errors
    /// The first violation: every later step relies on sorted, disjoint, aligned regions within the address
    /// width.
    pub fn new(regions: &[Region]) -> Result<Self, BootError> {
        let mut map = Self { regions: [EMPTY_REGION; Self::MAX_REGIONS], len: regions.len() };
        let (mut before, mut before_end) = (0, 0);
        for (at, region) in regions.iter().enumerate() {
            let slot = map.regions.get_mut(at).ok_or(BootError::TooManyRegions)?;
            before_end = region.check(at as u8, before, before_end)?;
            before = region.start.0;
            *slot = *region;
        }
        Ok(map)
    }

    /// The regions, ascending, without the memory that was allocated from their ends.
    pub fn regions(&self) -> &[Region] {
        &self.regions[..self.len]
    }

    /// The usable regions, with the initial contents of their bytes.
    pub fn usable(&self) -> impl Iterator<Item = (&Region, Init)> {
        self.regions().iter().filter_map(|region| Some((region, region.usable()?)))
    }

    /// From the first usable frame to the last.
    pub fn span(&self) -> Option<PfnRange> {
        let mut frames = self.usable().map(|(region, _)| region.frames());
        let first = frames.next()?;
        Some(PfnRange::new(first.start, frames.last().unwrap_or(first).end))
    }

    /// Removes `bytes` bytes from the end of the last usable region that has as many.
    pub(super) fn take_from_end(&mut self, bytes: usize, align: usize) -> Option<BootPiece> {
        self.regions[..self.len].iter_mut().rev().find_map(|region| {
            let init = region.usable()?;
            let end = region.start.0 + region.len_bytes;
            let start = end.checked_sub(bytes as u64)? & !(align as u64 - 1);
            region.len_bytes = start.checked_sub(region.start.0)?;
            Some(BootPiece { start: PhysAddr(start), init, node: region.node })
        })
    }

    /// Removes `bytes` bytes, whole frames, from a usable region: of those that have as many and the least
    /// `rank`, the last. Their start is `remainder` behind a multiple of `align`, a power of two. What is
    /// left of the region behind them is a region of its own, unless there are too many.
    pub(super) fn take_piece(
        &mut self,
        bytes: u64,
        (align, remainder): (u64, u64),
        rank: impl Fn(&Region) -> u32,
    ) -> Option<BootPiece> {
        let start_in = |region: &Region| {
            let start = (region.start.0 + region.len_bytes).checked_sub(bytes)?;
            let start = start.checked_sub(start.wrapping_sub(remainder) & (align - 1))?;
            (region.usable().is_some() && start >= region.start.0).then_some(start)
        };
        let found = (0..self.len).rev().filter_map(|at| Some((at, start_in(&self.regions[at])?)));
        let (at, start) = found.min_by_key(|&(at, _)| rank(&self.regions[at]))?;
        let region = &mut self.regions[at];
        let (init, node, end) = (region.usable()?, region.node, region.start.0 + region.len_bytes);
        region.len_bytes = start - region.start.0;
        let behind = Region { start: PhysAddr(start + bytes), len_bytes: end - (start + bytes), ..*region };
        if !behind.frames().is_empty() && self.len < Self::MAX_REGIONS {
            self.regions.copy_within(at + 1..self.len, at + 2);
            self.regions[at + 1] = behind;
            self.len += 1;
        }
        Some(BootPiece { start: PhysAddr(start), init, node })
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/boot_map.rs"]
mod tests;
