//! All physical memory of a machine, as the floors above see it.

use super::cache::CpuCache;
use super::deferred::Deferred;
use super::mishap::Mishap;
use super::nodes::Nearness;
use super::start::{Ground, RecordInit};
use super::{AllocRequest, BootError, BootMap, FrameMeta, FrameState, FrameTable, Init, Kind, Zone};
use crate::machine::Machine;
use crate::sync::atomic::AtomicU64;
use crate::sync::{PerCpu, SpinLock, lockdep};
use crate::units::{Pfn, PfnRange};
use core::fmt;

/// All physical memory of a machine.
///
/// | lock | rank | guards |
/// |---|---|---|
/// | `drain` | `lockdep::DRAIN` | the right to claim CPUs' caches |
/// | each zone's | `lockdep::ZONE` | its free blocks |
pub struct Memory<'m, M: Machine> {
    pub(super) machine: &'m M,
    pub(super) table: FrameTable<M::Cpu>,
    pub(super) caches: PerCpu<CpuCache<M::Cpu>, M::Cpu>,
    pub(super) zones: &'m [Zone<M::Cpu>],
    pub(super) spans: &'m [Span],
    pub(super) nearness: Nearness<'m>,
    pub(super) deferred: Deferred<'m, M::Cpu>,
    pub(super) drain: SpinLock<(), M::Cpu, { lockdep::DRAIN.0 }>,
    pub(super) mishap: Mishap<M::Cpu>,
    /// Relaxed: a count of errors.
    pub(super) refused: AtomicU64<M::Cpu>,
    zero: Pfn,
}

/// Frames that a zone got at start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub frames: PfnRange,
    pub zone: u8,
}

impl<'m, M: Machine> Memory<'m, M> {
    /// Memory of what `map` says is usable, less the library's own records, which are carved from it. The
    /// zero page is allocated at once, so this runs on one of the machine's CPUs.
    ///
    /// # Errors
    /// Where there is no memory, too little, or on too many nodes.
    pub fn new(machine: &'m M, map: BootMap) -> Result<Self, BootError> {
        Self::start(machine, map, RecordInit::Eager)
    }

    /// As [`new`](Self::new), with the records written as `start` says.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn start(machine: &'m M, map: BootMap, start: RecordInit) -> Result<Self, BootError> {
        Self::build(machine, map, start, |ground, map| ground.open(map))
    }

    /// Lays the ground, has `open` give frames to the zones, and takes the zero page.
    pub(super) fn build(
        machine: &'m M,
        mut map: BootMap,
        start: RecordInit,
        open: impl FnOnce(&mut Ground<'m, M>, &BootMap),
    ) -> Result<Self, BootError> {
        let mut ground = Ground::lay(machine, &mut map, start)?;
        open(&mut ground, &map);
        let Ground { table, caches, zones, spans, nearness, deferred } = ground;
        let (drain, mishap, refused) = (SpinLock::new(()), Mishap::new(), AtomicU64::new(0));
        let mut memory = Self {
            machine,
            table,
            caches,
            zones,
            spans,
            nearness,
            deferred,
            drain,
            mishap,
            refused,
            zero: Pfn(0),
        };
        memory.zero = memory.alloc_frame(AllocRequest::ZEROED).ok_or(BootError::TooSmall)?;
        memory.meta_of(memory.zero).put_to_use(Kind::Zero);
        Ok(memory)
    }

    /// The machine whose memory this is.
    pub fn machine(&self) -> &'m M {
        self.machine
    }

    /// The record of a frame. `None` where the frame is not the library's.
    #[inline]
    pub fn meta(&self, pfn: Pfn) -> Option<&FrameMeta<M::Cpu>> {
        self.table.meta(pfn)
    }

    /// The record of a frame that came from here.
    #[inline]
    pub(super) fn meta_of(&self, pfn: Pfn) -> &FrameMeta<M::Cpu> {
        self.table.meta(pfn).expect("a frame of this memory has a record")
    }

    /// All frames that have a record, holes included.
    pub fn span(&self) -> PfnRange {
        self.table.span()
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
    pub fn zones(&self) -> &[Zone<M::Cpu>] {
        self.zones
    }

    /// The zone that a frame of this memory belongs to.
    pub(super) fn zone_of(&self, pfn: Pfn) -> &Zone<M::Cpu> {
        let after = self.spans.partition_point(|span| span.frames.start <= pfn);
        &self.zones[after.checked_sub(1).map_or(0, |at| self.spans[at].zone as usize)]
    }

    /// Has the `nth` allocation from now fail, 1 being the next, whatever asks for it. 0 takes it back. Debug
    /// builds only.
    pub fn plan_mishap(&self, nth: u64) {
        self.mishap.plan(nth, 1);
    }

    /// As [`plan_mishap`](Self::plan_mishap), and every allocation of frames after it fails too, until that
    /// is taken back. Objects that were given back to a pool can be had.
    pub fn plan_mishaps_from(&self, nth: u64) {
        self.mishap.plan(nth, u64::MAX);
    }

    /// Whether a planned mishap has not struck yet.
    pub fn is_mishap_planned(&self) -> bool {
        self.mishap.is_planned()
    }

    /// Raises the count of user memory. `false` where the frame is not user memory (any more).
    pub fn try_get(&self, pfn: Pfn) -> bool {
        self.meta(pfn).is_some_and(FrameMeta::try_get)
    }

    /// Lowers the count of user memory, and frees it when nobody holds it.
    pub fn put(&self, pfn: Pfn) {
        let Some(meta) = self.meta(pfn) else { return self.refuse(pfn) };
        match meta.put() {
            Some(FrameState::TAKEN_FRAME) => self.stock(meta, pfn, Init::Dirty),
            Some(left) if left.kind() == Kind::Taken => self.free_block(pfn, left.order()),
            Some(_) => (),
            None => self.refuse(pfn),
        }
    }
}

impl<M: Machine> fmt::Debug for Memory<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory of {:?}", self.table.span())
    }
}
