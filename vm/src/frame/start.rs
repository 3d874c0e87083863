//! How memory begins: records, zones and spans in boot memory, and the frames that are there at once.

use super::cache::CpuCache;
use super::deferred::{Deferred, Sections, Stretch, most_stretches, plan};
use super::memory::Span;
use super::nodes::{Nearness, home_of, order_from};
use super::{BootError, BootMap, EarlyAllocator, FrameTable, Init, Zone};
use crate::machine::Machine;
use crate::sync::PerCpu;
use crate::sync::atomic::AtomicU32;
use crate::units::{CpuId, NodeId, PfnRange};

/// The most nodes with memory, and so zones.
pub(super) const MAX_ZONES: usize = 64;

/// When frame records are written, and frames given to their zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordInit {
    /// All of them before the first allocation.
    Eager,
    /// What start needs; the rest when it is needed, or by [`Memory::initialise`](super::Memory::initialise).
    Deferred,
}

/// What start builds for [`Memory`](super::Memory).
pub(super) struct Ground<'m, M: Machine> {
    pub table: FrameTable<M::Cpu>,
    pub caches: PerCpu<CpuCache<M::Cpu>, M::Cpu>,
    pub zones: &'m [Zone<M::Cpu>],
    pub spans: &'m [Span],
    pub nearness: Nearness<'m>,
    pub deferred: Deferred<'m, M::Cpu>,
}

impl<'m, M: Machine> Ground<'m, M> {
    /// Carves records, caches and zones from the map.
    pub fn lay(machine: &'m M, map: &mut BootMap, start: RecordInit) -> Result<Self, BootError> {
        let span = map.span().ok_or(BootError::NoMemory)?;
        let nodes = Nodes::of(map)?;
        let (table, records, sections) =
            records(map.early_allocator(machine), span, start).ok_or(BootError::TooSmall)?;
        let caches = PerCpu::carve(&mut map.early_allocator(machine), machine.nr_cpus(), |_| CpuCache::new());
        let caches = caches.ok_or(BootError::TooSmall)?;
        let nearness =
            nodes.nearness(machine, &mut map.early_allocator(machine)).ok_or(BootError::TooSmall)?;
        let carved = carve_zones(machine, map, &nodes, &table, start).ok_or(BootError::TooSmall)?;
        let deferred = Deferred::new(carved.stretches, sections, records);
        Ok(Self { table, caches, zones: carved.zones, spans: carved.spans, nearness, deferred })
    }

    /// Writes the records of what does not wait, and gives it to the zones.
    pub fn open(&self, map: &BootMap) {
        let waiting = || self.deferred.stretches().iter().map(|stretch| stretch.plan.frames);
        if self.deferred.must_write() && !mutant!("deferred.edge-records-not-written") {
            // SAFETY: the ranges lie in the table's span; nobody has the table yet.
            gaps(self.table.span(), waiting()).for_each(|frames| unsafe { self.table.clear(frames) });
        }
        for (span, (_, init)) in self.spans.iter().zip(map.usable()) {
            let zone = &self.zones[span.zone as usize];
            gaps(span.frames, waiting()).for_each(|frames| zone.add(&self.table, frames, init));
        }
        for stretch in self.deferred.stretches().iter().filter(|stretch| stretch.plan.gives.is_some()) {
            self.zones[stretch.plan.zone as usize].expect_frames(stretch.plan.frames.len());
        }
    }
}

/// The records, how they start, and which of them are claimed.
type Records<'m, M> = (FrameTable<<M as Machine>::Cpu>, Init, Sections<'m, <M as Machine>::Cpu>);

fn records<'m, M: Machine>(
    mut allocator: EarlyAllocator<'_, 'm, M>,
    span: PfnRange,
    start: RecordInit,
) -> Option<Records<'m, M>> {
    match start {
        RecordInit::Eager => {
            let table = FrameTable::carve(&mut allocator, span)?;
            Some((table, Init::Zeroed, Sections::new(span, &[], &[])))
        }
        RecordInit::Deferred => {
            let (table, init) = FrameTable::carve_as_found(&mut allocator, span)?;
            let nr_words = Sections::<M::Cpu>::nr_words(table.span());
            // Made zero when they are first needed.
            let words = allocator.words_as_found(nr_words)?;
            let lines =
                allocator.room(Sections::<M::Cpu>::nr_line_words(nr_words))?.fill(|_| AtomicU32::new(0));
            Some((table, init, Sections::new(span, words, lines)))
        }
    }
}

/// What of `within` lies in none of the ranges, which ascend and do not overlap.
fn gaps(within: PfnRange, ranges: impl Iterator<Item = PfnRange>) -> impl Iterator<Item = PfnRange> {
    let end = PfnRange::new(within.end, within.end);
    let mut at = within.start;
    let relevant = ranges.filter(move |range| range.overlaps(within)).chain([end]);
    let gap = move |range: PfnRange| {
        let gap = PfnRange::new(at, range.start);
        at = at.max(range.end);
        gap
    };
    relevant.map(gap).filter(|gap| !gap.is_empty())
}

/// The nodes that have usable memory.
pub(super) struct Nodes {
    nodes: [NodeId; MAX_ZONES],
    len: usize,
}

impl Nodes {
    /// By ascending address of their first frame.
    pub fn of(map: &BootMap) -> Result<Self, BootError> {
        let mut found = Self { nodes: [NodeId(0); MAX_ZONES], len: 0 };
        for (region, _) in map.usable() {
            if found.index(region.node).is_none() {
                *found.nodes.get_mut(found.len).ok_or(BootError::TooManyNodes)? = region.node;
                found.len += 1;
            }
        }
        Ok(found)
    }

    /// The order in which each zone's allocations look, and the CPUs' homes.
    fn nearness<'m, M: Machine>(
        &self,
        machine: &M,
        allocator: &mut EarlyAllocator<'_, 'm, M>,
    ) -> Option<Nearness<'m>> {
        let nodes = &self.nodes[..self.len];
        let distance = |from, to| machine.distance(from, to);
        let (mut row, mut of) = ([0; MAX_ZONES], usize::MAX);
        let orders = allocator.room::<u8>(self.len * self.len)?.fill(|at| {
            if of != at / nodes.len() {
                of = at / nodes.len();
                order_from(of, &mut row[..nodes.len()], |zone| distance(nodes[of], nodes[zone]));
            }
            row[at % nodes.len()]
        });
        let home = |cpu: usize| home_of(nodes, machine.node_of(CpuId(cpu as u32)), distance);
        let homes = allocator.room::<u8>(machine.nr_cpus() as usize)?.fill(home);
        Some(Nearness { orders, homes })
    }

    fn index(&self, node: NodeId) -> Option<usize> {
        self.nodes[..self.len].iter().position(|known| *known == node)
    }
}

struct Carved<'m, M: Machine> {
    zones: &'m [Zone<M::Cpu>],
    spans: &'m [Span],
    stretches: &'m [Stretch<M::Cpu>],
}

/// Zones, spans and stretches in boot memory, for what is left of the map after them.
fn carve_zones<'m, M: Machine>(
    machine: &'m M,
    map: &mut BootMap,
    nodes: &Nodes,
    table: &FrameTable<M::Cpu>,
    start: RecordInit,
) -> Option<Carved<'m, M>> {
    let nr_spans = map.usable().count();
    let mut allocator = map.early_allocator(machine);
    // Room first, contents when it is known what is left.
    let spans_at = allocator.room::<Span>(nr_spans)?;
    let zones_at = allocator.room::<Zone<M::Cpu>>(nodes.len)?;
    let stretches_at = match start {
        RecordInit::Eager => None,
        RecordInit::Deferred => Some(allocator.room::<Stretch<M::Cpu>>(most_stretches(nr_spans))?),
    };
    let managed = |node| map.usable().filter(|(r, _)| r.node == node).map(|(r, _)| r.frames().len()).sum();
    let zone = |at: usize| Zone::new(at as u8, nodes.nodes[at], managed(nodes.nodes[at]));
    let zone_of = |node| nodes.index(node).unwrap_or(0) as u8;
    let mut usable = map.usable();
    let span = |_| match usable.next() {
        Some((region, _)) => Span { frames: region.frames(), zone: zone_of(region.node) },
        None => Span { frames: PfnRange::default(), zone: 0 },
    };
    let (zones, spans) = (zones_at.fill(zone), spans_at.fill(span));
    let usable = || spans.iter().zip(map.usable()).map(|(span, (_, init))| (span.frames, span.zone, init));
    let stretches = stretches_at.map_or(&[][..], |room| {
        room.fill_some(|push| plan(table.span(), usable(), |plan| push(Stretch::new(plan))))
    });
    Some(Carved { zones, spans, stretches })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Pfn;
    use std::vec::Vec;

    #[test]
    fn gaps_and_ranges_together_are_the_whole() {
        let range = |from, to| PfnRange::new(Pfn(from), Pfn(to));
        let cut = |within, ranges: &[PfnRange]| gaps(within, ranges.iter().copied()).collect::<Vec<_>>();
        assert_eq!(cut(range(2, 9), &[range(3, 5), range(5, 6)]), [range(2, 3), range(6, 9)]);
        assert_eq!(cut(range(2, 9), &[]), [range(2, 9)]);
        assert_eq!(cut(range(2, 9), &[range(0, 3), range(8, 12)]), [range(3, 8)]);
        assert_eq!(cut(range(2, 9), &[range(2, 9)]), []);
        assert_eq!(cut(range(2, 9), &[range(0, 2), range(9, 12)]), [range(2, 9)]);
    }
}
