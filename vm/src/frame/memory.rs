//! All physical memory of a machine, as the floors above see it.

use super::boot::{Deferred, EarlySetup};
use super::hugetlb::HugetlbPools;
use super::mishap::Mishap;
use super::percpu::CpuCache;
use super::zone::{DistanceList, ZoneRange};
use super::{AllocRequest, BootError, BootMap, BootMemory, FrameMeta, FrameTable, Kind};
use super::{RecordExtent, RecordInit, Zone};
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::{AtomicU64, AtomicUsize};
use crate::sync::{GarbageLimits, PerCpu, SpinLock, UniqueId, lockdep};
use crate::units::{PAGE_SIZE, Pfn, PfnRange};
use core::fmt;

/// All physical memory of a machine.
///
/// | lock | rank | guards |
/// |---|---|---|
/// | `drain` | `lockdep::DRAIN` | the right to revoke CPUs' caches |
/// | `hugetlb_pools`' | `lockdep::HUGETLB` | what the hugetlb pool has, and its lists in the zones |
/// | each zone's `runs` | `lockdep::ZONE_RUN` | the right to take frames of several regions as one |
/// | each region's | `lockdep::ZONE` | its free blocks |
pub struct Memory<'m, M: Machine> {
    pub(super) machine: &'m M,
    id: UniqueId,
    pub(super) table: FrameTable<'m, M::Cpu>,
    pub(super) caches: PerCpu<'m, CpuCache<M::Cpu>, M::Cpu>,
    pub(super) zones: &'m [Zone<'m, M::Cpu>],
    pub(super) zone_ranges: &'m [ZoneRange],
    pub(super) distances: DistanceList<'m>,
    pub(super) deferred: Deferred<'m, M::Cpu>,
    pub(super) drain: SpinLock<(), M::Cpu, { lockdep::DRAIN.0 }>,
    pub(super) mishap: Mishap<M::Cpu>,
    /// Relaxed: a count of errors.
    pub(super) refused: AtomicU64<M::Cpu>,
    /// The tag of the [`SlabPool`](super::SlabPool) that was made last; 0 for none. Written with release,
    /// read with acquire; each pool names the one before it.
    pub(super) pools: AtomicUsize<M::Cpu>,
    zero: Pfn,
    /// The hugetlb pool of huge pages.
    pub(super) hugetlb_pools: HugetlbPools<M::Cpu>,
    /// Bits of [`HugeZeroOptions`](super::HugeZeroOptions). Relaxed: a setting.
    pub(super) huge_zero_options: AtomicU64<M::Cpu>,
}

impl<'m, M: Machine> Memory<'m, M> {
    /// The memory that `map` says is usable, less the library's own records, which are allocated from it. The
    /// zero page is allocated at once, so this runs on one of the machine's CPUs.
    ///
    /// # Errors
    /// As [`BootMap::claim`], and as [`start`](Self::start).
    pub fn new(machine: &'m M, map: BootMap) -> Result<Self, BootError> {
        Self::start(map.claim(machine)?, RecordInit::Eager)
    }

    /// As [`new`](Self::new), of memory that is claimed already, with the records initialised as `init` says.
    ///
    /// # Errors
    /// Where there is no memory, too little, or on too many nodes. It stays claimed.
    pub fn start(memory: BootMemory<'m, M>, init: RecordInit) -> Result<Self, BootError> {
        Self::build(memory, init, |setup, map| setup.finish(map))
    }

    /// Sets up records and zones, has `finish` free frames to the zones, and allocates the zero page.
    pub(super) fn build(
        mut memory: BootMemory<'m, M>,
        init: RecordInit,
        finish: impl FnOnce(&mut EarlySetup<'m, M>, &BootMap),
    ) -> Result<Self, BootError> {
        let (machine, mut setup) = (memory.machine(), EarlySetup::new(&mut memory, init)?);
        finish(&mut setup, memory.map());
        let EarlySetup { table, caches, zones, zone_ranges, distances, deferred } = setup;
        let (drain, mishap, refused) = (SpinLock::new(()), Mishap::new(), AtomicU64::new(0));
        let mut memory = Self {
            machine,
            id: UniqueId::new(),
            table,
            caches,
            zones,
            zone_ranges,
            distances,
            deferred,
            drain,
            mishap,
            refused,
            pools: AtomicUsize::new(0),
            zero: Pfn(0),
            hugetlb_pools: HugetlbPools::new(),
            huge_zero_options: AtomicU64::new(0),
        };
        memory.zero = memory.take_frame(AllocRequest::ZEROED).ok_or(BootError::TooSmall)?;
        memory.meta_of(memory.zero).put_to_use(Kind::Zero);
        Ok(memory)
    }

    /// How much garbage each CPU of the machine may hold.
    pub fn garbage_limits(&self) -> GarbageLimits {
        GarbageLimits::for_memory(self.bytes(), self.machine.nr_cpus())
    }

    /// All that the zones manage, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.zones.iter().map(Zone::managed).sum::<u64>() * PAGE_SIZE as u64
    }

    /// The machine whose memory this is.
    pub fn machine(&self) -> &'m M {
        self.machine
    }

    /// Which memory this is: pools and garbage of one memory are not used with another.
    #[inline(always)]
    pub fn id(&self) -> UniqueId {
        self.id
    }

    /// The record of a frame. `None` where the frame is not the library's, or its record is deferred and not
    /// written yet: then the frame was never allocated.
    #[inline]
    pub fn meta(&self, pfn: Pfn) -> Option<&FrameMeta<M::Cpu>> {
        self.deferred.is_written(pfn).then(|| self.table.meta(pfn)).flatten()
    }

    /// The record of a frame that a zone, a cache, an owned value of this memory or an entry that owns its
    /// frame names: it is written.
    #[inline]
    pub(crate) fn meta_of(&self, pfn: Pfn) -> &FrameMeta<M::Cpu> {
        debug_assert!(self.deferred.is_written(pfn), "{pfn:?} is used before its record was written");
        self.table.meta(pfn).expect("a frame of this memory has a record")
    }

    /// Fetches a frame's record into this CPU's cache, if there is one: a hint.
    #[inline(always)]
    pub(crate) fn prefetch(&self, pfn: Pfn) {
        if let (Some(prefetch), Some(meta)) = (M::Cpu::PREFETCH, self.table.meta(pfn)) {
            prefetch(core::ptr::from_ref(meta).addr());
        }
    }

    /// All frames that have a record, holes included.
    pub fn span(&self) -> PfnRange {
        self.table.span()
    }

    /// Where the records of all frames lie, by ascending address of the frames. Records of holes that are in
    /// none of the extents have no memory.
    pub fn record_extents(&self) -> &[RecordExtent] {
        self.table.extents()
    }

    /// The frame of zeroes that read faults map. Its record says `Zero`; it is never freed, and its counts
    /// are ignored.
    pub fn zero_frame(&self) -> Pfn {
        self.zero
    }

    /// The addresses of all CPUs' caches, for observers.
    pub fn extent_of_caches(&self) -> core::ops::Range<usize> {
        self.caches.extent()
    }

    /// The zones, by ascending address of their first frame.
    pub fn zones(&self) -> &[Zone<'m, M::Cpu>] {
        self.zones
    }

    /// The zone that a frame of this memory belongs to.
    pub(super) fn zone_of(&self, pfn: Pfn) -> &Zone<'m, M::Cpu> {
        let after = self.zone_ranges.partition_point(|range| range.frames.start <= pfn);
        &self.zones[after.checked_sub(1).map_or(0, |at| self.zone_ranges[at].zone as usize)]
    }

    /// Makes the `nth` allocation from now fail, 1 being the next, for any use. 0 cancels that. Debug
    /// builds only.
    pub fn plan_mishap(&self, nth: u64) {
        self.mishap.plan(nth, 1);
    }

    /// As [`plan_mishap`](Self::plan_mishap), and every allocation of frames after it fails too, until that
    /// is cancelled. Free objects of a pool can still be allocated.
    pub fn plan_mishaps_from(&self, nth: u64) {
        self.mishap.plan(nth, u64::MAX);
    }

    /// As [`plan_mishap`](Self::plan_mishap), and `in_a_row` allocations fail, that one included.
    #[cfg(all(test, not(loom)))]
    pub fn plan_mishaps(&self, nth: u64, in_a_row: u64) {
        self.mishap.plan(nth, in_a_row);
    }

    /// Whether a planned mishap has happened, and was not cancelled since: no reclaiming cures it.
    pub(crate) fn has_mishap_happened(&self) -> bool {
        self.mishap.has_struck()
    }

    /// Whether a planned mishap has not happened yet.
    pub fn is_mishap_planned(&self) -> bool {
        self.mishap.is_planned()
    }
}

impl<M: Machine> fmt::Debug for Memory<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory of {:?}", self.table.span())
    }
}
