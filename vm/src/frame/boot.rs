//! The memory map that firmware hands over: untrusted, checked once, carved from, then given to
//! [`Memory`](super::Memory).

use super::Init;
use crate::machine::{Cpu, Machine};
use crate::sync::Carve;
use crate::sync::atomic::AtomicU32;
use crate::units::{NodeId, PAGE_SIZE, PfnRange, PhysAddr};
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// Bits of the largest physical address that a table entry can hold.
pub const MAX_PHYS_BITS: u32 = 52;

/// What boot memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    /// The library may have it; it starts as said.
    Usable(Init),
    /// Somebody else's.
    Reserved,
}

/// A span of physical memory as firmware describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte; a multiple of 4096.
    pub start: PhysAddr,
    /// Bytes; a multiple of 4096 and not 0.
    pub len_bytes: u64,
    /// Whose it is.
    pub kind: RegionKind,
    /// The node it belongs to.
    pub node: NodeId,
}

/// Why boot memory is refused. `region` counts from 0 in the order given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootError {
    /// More regions than [`BootMap::MAX_REGIONS`].
    TooManyRegions,
    /// The region holds nothing.
    Empty {
        /// Which.
        region: u8,
    },
    /// Start or length is not a multiple of 4096.
    Unaligned {
        /// Which.
        region: u8,
    },
    /// The region ends beyond [`MAX_PHYS_BITS`], or wraps around.
    BeyondAddresses {
        /// Which.
        region: u8,
    },
    /// The region starts before the one before it.
    Unsorted {
        /// Which.
        region: u8,
    },
    /// The region starts before the one before it ends.
    Overlap {
        /// Which.
        region: u8,
    },
    /// More nodes with usable memory than [`Memory`](super::Memory) has zones.
    TooManyNodes,
    /// No usable region.
    NoMemory,
    /// Usable memory does not suffice for the library's own records.
    TooSmall,
}

/// At most [`BootMap::MAX_REGIONS`] regions, sorted and disjoint.
#[derive(Clone, Debug)]
pub struct BootMap {
    regions: [Region; Self::MAX_REGIONS],
    len: usize,
}

const NOTHING: Region =
    Region { start: PhysAddr(0), len_bytes: 0, kind: RegionKind::Reserved, node: NodeId(0) };

impl Region {
    /// The whole frames of the region.
    pub fn frames(&self) -> PfnRange {
        let end = PhysAddr(self.start.0 + self.len_bytes);
        PfnRange::new(self.start.pfn(), end.pfn())
    }

    /// How its bytes start, where they are usable.
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

    /// A map of the given regions, which firmware or a caller made up.
    ///
    /// # Errors
    /// The first thing that is wrong with them. Nothing is trusted: every later step relies on sorted,
    /// disjoint, aligned regions within the address width.
    pub fn new(regions: &[Region]) -> Result<Self, BootError> {
        let mut map = Self { regions: [NOTHING; Self::MAX_REGIONS], len: regions.len() };
        let (mut before, mut before_end) = (0, 0);
        for (at, region) in regions.iter().enumerate() {
            let slot = map.regions.get_mut(at).ok_or(BootError::TooManyRegions)?;
            before_end = region.check(at as u8, before, before_end)?;
            before = region.start.0;
            *slot = *region;
        }
        Ok(map)
    }

    /// The regions, ascending; carved memory has left its region's end.
    pub fn regions(&self) -> &[Region] {
        &self.regions[..self.len]
    }

    /// The usable regions with the way their bytes start.
    pub fn usable(&self) -> impl Iterator<Item = (&Region, Init)> {
        self.regions().iter().filter_map(|region| Some((region, region.usable()?)))
    }

    /// From the first usable frame to the last.
    pub fn span(&self) -> Option<PfnRange> {
        let mut frames = self.usable().map(|(region, _)| region.frames());
        let first = frames.next()?;
        Some(PfnRange::new(first.start, frames.last().unwrap_or(first).end))
    }

    /// Hands out boot memory through `machine`'s window, from the last region that has room, downwards.
    pub fn early_allocator<'a, 'm, M: Machine>(&'a mut self, machine: &'m M) -> EarlyAllocator<'a, 'm, M> {
        EarlyAllocator { machine, map: self }
    }

    fn cut(&mut self, bytes: usize, align: usize) -> Option<(PhysAddr, Init)> {
        self.regions[..self.len].iter_mut().rev().find_map(|region| {
            let init = region.usable()?;
            let end = region.start.0 + region.len_bytes;
            let start = end.checked_sub(bytes as u64)? & !(align as u64 - 1);
            region.len_bytes = start.checked_sub(region.start.0)?;
            Some((PhysAddr(start), init))
        })
    }
}

/// Carves boot memory; see [`BootMap::early_allocator`].
#[derive(Debug)]
pub struct EarlyAllocator<'a, 'm, M> {
    machine: &'m M,
    map: &'a mut BootMap,
}

impl<M: Machine> Carve for EarlyAllocator<'_, '_, M> {
    fn carve(&mut self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        // Windows are contiguous where memory is, so alignment carries over up to that of a frame.
        if !align.is_power_of_two() || align > PAGE_SIZE {
            return None;
        }
        let (at, init) = self.carve_as_found(bytes, align)?;
        if init == Init::Dirty {
            // SAFETY: the bytes belong to a usable region, which the embedder gave to the library (Machine,
            // promise 1), and have just left the map, so nobody else has them.
            unsafe { at.write_bytes(0, bytes) };
        }
        Some(at)
    }
}

/// Carved memory for a slice that is filled later.
#[derive(Debug)]
pub(super) struct Room<'m, T> {
    at: NonNull<T>,
    len: usize,
    _memory: PhantomData<&'m mut [T]>,
}

impl<'m, M: Machine> EarlyAllocator<'_, 'm, M> {
    /// Memory as [`carve`](Carve::carve) gives it, but not written: it holds what it holds. `align` is a
    /// power of two up to that of a frame.
    pub(super) fn carve_as_found(&mut self, bytes: usize, align: usize) -> Option<(NonNull<u8>, Init)> {
        let (start, init) = self.map.cut(bytes, align)?;
        Some((self.machine.window(start), init))
    }

    /// Room for `len` values.
    pub(super) fn room<T>(&mut self, len: usize) -> Option<Room<'m, T>> {
        let at = self.carve(size_of::<T>().checked_mul(len)?, align_of::<T>())?.cast();
        // SAFETY: a machine's window lasts as long as the machine (promise 1), and carved memory is nobody
        // else's.
        Some(unsafe { Room::new(at, len) })
    }
}

impl<'m, M: Machine> EarlyAllocator<'_, 'm, M> {
    /// Words as memory was found: they hold anything.
    pub(super) fn words_as_found<C: Cpu>(&mut self, len: usize) -> Option<&'m [AtomicU32<C>]> {
        let bytes = size_of::<AtomicU32<C>>().checked_mul(len)?;
        let (at, _) = self.carve_as_found(bytes, align_of::<AtomicU32<C>>())?;
        // SAFETY: the memory is large enough, aligned, carved for good, and nobody else's; whatever it holds
        // is a value of each word.
        Some(unsafe { core::slice::from_raw_parts(at.cast().as_ptr(), len) })
    }
}

impl<'m, T> Room<'m, T> {
    /// The room that `at` is.
    ///
    /// # Safety
    /// The memory there holds `len` values, lives for `'m`, and nobody else has it.
    pub(super) unsafe fn new(at: NonNull<T>, len: usize) -> Self {
        Self { at, len, _memory: PhantomData }
    }

    /// The one value of a room for one; never dropped.
    pub(super) fn fill_one(self, value: T) -> &'m T {
        assert_eq!(self.len, 1);
        // SAFETY: the room holds one value, and only this room has the memory.
        unsafe { self.at.write(value) };
        // SAFETY: initialised, shared from now on, alive for `'m`.
        unsafe { self.at.as_ref() }
    }

    /// A slice of as many values as `make` pushes, at most as many as there is room for; they are never
    /// dropped.
    pub(super) fn fill_some(self, make: impl FnOnce(&mut dyn FnMut(T))) -> &'m [T] {
        let mut len = 0;
        make(&mut |value| {
            assert!(len < self.len, "more values than room");
            // SAFETY: the memory holds `self.len` values, aligned, and only this room has it.
            unsafe { self.at.add(len).write(value) };
            len += 1;
        });
        // SAFETY: so many are initialised, and only shared from now on; alive for `'m`.
        unsafe { core::slice::from_raw_parts(self.at.as_ptr(), len) }
    }

    /// The slice; its values are never dropped.
    pub(super) fn fill(self, mut value: impl FnMut(usize) -> T) -> &'m [T] {
        for index in 0..self.len {
            // SAFETY: the carved memory holds `len` values, aligned, and only this room has it.
            unsafe { self.at.add(index).write(value(index)) };
        }
        // SAFETY: initialised above and only shared from now on; a machine's window lasts as long as the
        // machine (promise 1), which the room's maker borrowed for `'m`.
        unsafe { core::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BootError::TooManyRegions => {
                write!(f, "the boot map has more than {} regions", BootMap::MAX_REGIONS)
            }
            BootError::Empty { region } => write!(f, "boot region {region} is empty"),
            BootError::Unaligned { region } => {
                write!(f, "boot region {region} does not start and end on multiples of {PAGE_SIZE}")
            }
            BootError::BeyondAddresses { region } => {
                write!(f, "boot region {region} ends beyond {MAX_PHYS_BITS} bits of physical address")
            }
            BootError::Unsorted { region } => write!(f, "boot region {region} lies before the one before it"),
            BootError::Overlap { region } => write!(f, "boot region {region} overlaps the one before it"),
            BootError::TooManyNodes => f.write_str("usable boot memory belongs to too many nodes"),
            BootError::NoMemory => f.write_str("the boot map has no usable region"),
            BootError::TooSmall => f.write_str("usable boot memory does not hold the frame records"),
        }
    }
}

impl core::error::Error for BootError {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::machine::testing::TestMachine;
    use std::string::ToString;
    use std::vec::Vec;

    fn usable(start: u64, len_bytes: u64) -> Region {
        Region { start: PhysAddr(start), len_bytes, kind: RegionKind::Usable(Init::Dirty), node: NodeId(0) }
    }

    fn refused(regions: &[Region]) -> BootError {
        BootMap::new(regions).unwrap_err()
    }

    #[test]
    fn what_firmware_may_get_wrong_has_one_clear_error_each() {
        let good = usable(0x1000, 0x3000);
        assert_eq!(refused(&[good, usable(0x4000, 0)]), BootError::Empty { region: 1 });
        assert_eq!(refused(&[usable(0x1001, 0x1000)]), BootError::Unaligned { region: 0 });
        assert_eq!(refused(&[usable(0x1000, 0x1001)]), BootError::Unaligned { region: 0 });
        assert_eq!(refused(&[good, usable(0x3000, 0x1000)]), BootError::Overlap { region: 1 });
        assert_eq!(refused(&[good, usable(0, 0x1000)]), BootError::Unsorted { region: 1 });
        assert_eq!(refused(&[usable(!0xfff, 0x1000)]), BootError::BeyondAddresses { region: 0 });
        assert_eq!(refused(&[usable(1 << 52, 0x1000)]), BootError::BeyondAddresses { region: 0 });
        assert_eq!(refused(&[usable(0x1000, !0xfff)]), BootError::BeyondAddresses { region: 0 });
        let many: Vec<_> = (0..129).map(|n| usable(n << 20, 0x1000)).collect();
        assert_eq!(refused(&many), BootError::TooManyRegions);
        assert_eq!(refused(&[good, good]).to_string(), "boot region 1 overlaps the one before it");
    }

    #[test]
    fn no_sequence_of_odd_numbers_panics() {
        let odd = [0, 1, 0xfff, 0x1000, 0x2000, 1 << 51, 1 << 52, u64::MAX, !0xfff];
        for (a, b) in odd.iter().flat_map(|&a| odd.iter().map(move |&b| (a, b))) {
            for (c, d) in odd.iter().flat_map(|&c| odd.iter().map(move |&d| (c, d))) {
                if let Ok(map) = BootMap::new(&[usable(a, b), usable(c, d)]) {
                    assert!(map.regions()[0].frames().end <= map.regions()[1].frames().start);
                }
            }
        }
    }

    #[test]
    fn carved_memory_is_zeroed_aligned_and_gone() {
        let machine = TestMachine::new(16);
        let start = machine.frames().start;
        machine.write(start.add(15), 0, &[7; PAGE_SIZE]);
        let mut map = BootMap::new(&[usable(start.addr().0, 16 << 12)]).unwrap();
        let at = map.early_allocator(&machine).carve(100, 64).unwrap();
        assert_eq!(at.addr().get() % 64, 0);
        // SAFETY: just carved.
        assert!(unsafe { core::slice::from_raw_parts(at.as_ptr(), 100) }.iter().all(|&byte| byte == 0));
        let next = map.early_allocator(&machine).carve(8, 8).unwrap();
        assert!(next < at);
        assert_eq!(map.span().unwrap().len(), 15);
        assert_eq!(map.early_allocator(&machine).carve(16 << 12, 8), None);
        assert!(map.early_allocator(&machine).carve(15 << 12, 4096).is_some());
        assert_eq!(map.early_allocator(&machine).carve(1, 1), None);
    }
}
