//! All physical memory of a machine, as the floors above see it.

use super::cache::CpuCache;
use super::mishap::Mishap;
use super::{Ask, BootError, BootMap, FrameMeta, FrameState, FrameTable, Init, Kind, Zone};
use crate::machine::Machine;
use crate::sync::atomic::AtomicU64;
use crate::sync::{PerCpu, SpinLock, ladder};
use crate::units::{NodeId, Pfn, PfnRange};
use core::fmt;

/// The most nodes with memory, and so zones.
const MAX_ZONES: usize = 64;

/// All physical memory of a machine.
///
/// | lock | rank | guards |
/// |---|---|---|
/// | `drain` | `ladder::DRAIN` | the right to claim CPUs' caches |
/// | each zone's | `ladder::ZONE` | its free blocks |
pub struct Memory<'m, M: Machine> {
    pub(super) machine: &'m M,
    pub(super) table: FrameTable<M::Cpu>,
    pub(super) caches: PerCpu<CpuCache<M::Cpu>, M::Cpu>,
    pub(super) zones: &'m [Zone<M::Cpu>],
    pub(super) spans: &'m [Span],
    pub(super) drain: SpinLock<(), M::Cpu, { ladder::DRAIN.0 }>,
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
    /// Memory of what `map` says is usable, less the library's own records, which are carved from it. The zero page is
    /// allocated at once, so this runs on one of the machine's CPUs.
    ///
    /// # Errors
    /// Where there is no memory, too little, or on too many nodes.
    pub fn new(machine: &'m M, mut map: BootMap) -> Result<Self, BootError> {
        let span = map.span().ok_or(BootError::NoMemory)?;
        let nodes = Nodes::of(&map)?;
        let mut carver = map.carver(machine);
        let table = FrameTable::carve(&mut carver, span).ok_or(BootError::TooSmall)?;
        let caches = PerCpu::carve(&mut carver, machine.nr_cpus(), |_| CpuCache::new());
        let caches = caches.ok_or(BootError::TooSmall)?;
        let (zones, spans) = carve_zones(machine, &mut map, &nodes).ok_or(BootError::TooSmall)?;
        for (span, (_, init)) in spans.iter().zip(map.usable()) {
            zones[span.zone as usize].add(&table, span.frames, init);
        }
        let (drain, mishap, refused) = (SpinLock::new(()), Mishap::new(), AtomicU64::new(0));
        let mut memory = Self { machine, table, caches, zones, spans, drain, mishap, refused, zero: Pfn(0) };
        memory.zero = memory.alloc_frame(Ask::ZEROED).ok_or(BootError::TooSmall)?;
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

    /// The frame of zeroes that read faults map. Its record says `Zero`; it is never freed, and its counts are ignored.
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

    /// Has the `nth` allocation from now fail, 1 being the next, whatever asks for it. 0 takes it back. Debug builds only.
    pub fn plan_mishap(&self, nth: u64) {
        self.mishap.plan(nth);
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

/// The nodes that have usable memory, and how many frames each.
struct Nodes {
    nodes: [(NodeId, u64); MAX_ZONES],
    len: usize,
}

impl Nodes {
    fn of(map: &BootMap) -> Result<Self, BootError> {
        let mut found = Self { nodes: [(NodeId(0), 0); MAX_ZONES], len: 0 };
        for (region, _) in map.usable() {
            if found.index(region.node).is_none() {
                *found.nodes.get_mut(found.len).ok_or(BootError::TooManyNodes)? = (region.node, 0);
                found.len += 1;
            }
        }
        Ok(found)
    }

    fn index(&self, node: NodeId) -> Option<usize> {
        self.nodes[..self.len].iter().position(|(known, _)| *known == node)
    }
}

type Zones<'m, C> = (&'m [Zone<C>], &'m [Span]);

/// Zones and spans in boot memory, for what is left of the map after them.
fn carve_zones<'m, M: Machine>(
    machine: &'m M,
    map: &mut BootMap,
    nodes: &Nodes,
) -> Option<Zones<'m, M::Cpu>> {
    let nr_spans = map.usable().count();
    let mut carver = map.carver(machine);
    // Room first, contents when it is known what is left.
    let spans_at = carver.room::<Span>(nr_spans)?;
    let zones_at = carver.room::<Zone<M::Cpu>>(nodes.len)?;
    let managed = |node| map.usable().filter(|(r, _)| r.node == node).map(|(r, _)| r.frames().len()).sum();
    let zone = |at: usize| Zone::new(at as u8, nodes.nodes[at].0, managed(nodes.nodes[at].0));
    let mut usable = map.usable();
    let mut span = |_| {
        let region = usable.next().map(|(region, _)| region);
        let zone = region.and_then(|region| nodes.index(region.node)).unwrap_or(0);
        Span { frames: region.map_or(PfnRange::default(), |r| r.frames()), zone: zone as u8 }
    };
    Some((zones_at.fill(zone), spans_at.fill(&mut span)))
}

impl<M: Machine> fmt::Debug for Memory<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory of {:?}", self.table.span())
    }
}
