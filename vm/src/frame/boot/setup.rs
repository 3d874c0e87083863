//! Early set-up: frame records, per-CPU caches and zones in boot memory, and the frames that the zones get
//! before the first allocation.
//!
//! [`EarlySetup::new`] allocates everything from the boot map, so that the zones manage the rest of the map.
//! [`EarlySetup::finish`] initialises the records that are not deferred and frees their frames to the zones.

use super::deferred::{Deferred, DeferredRange, gaps, max_deferred_ranges, plan_deferred};
use super::records::Records;
use super::{BootError, BootMap, BootMemory, EarlyAllocator};
use crate::frame::percpu::CpuCache;
use crate::frame::zone::{DistanceList, ZoneRange, nearest_zone, sort_by_distance};
use crate::frame::{FrameTable, Zone};
use crate::machine::Machine;
use crate::sync::{PerCpu, carve_slice, fill, fill_some};
use crate::units::{CpuId, NodeId, PfnRange};

/// The most nodes with memory, and so zones.
pub(super) const MAX_ZONES: usize = 64;

/// When frame records are initialised and their frames freed to the zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordInit {
    /// All of them before the first allocation.
    Eager,
    /// Before the first allocation only the records that start needs; the rest on demand, or by
    /// [`Memory::initialise`](crate::frame::Memory::initialise).
    Deferred,
}

/// The state that is set up before [`Memory`](crate::frame::Memory) exists.
pub(in crate::frame) struct EarlySetup<'m, M: Machine> {
    pub table: FrameTable<'m, M::Cpu>,
    pub caches: PerCpu<'m, CpuCache<M::Cpu>, M::Cpu>,
    pub zones: &'m [Zone<M::Cpu>],
    pub zone_ranges: &'m [ZoneRange],
    pub distances: DistanceList<'m>,
    pub deferred: Deferred<'m, M::Cpu>,
}

impl<'m, M: Machine> EarlySetup<'m, M> {
    /// Allocates records, caches and zones from the boot memory.
    pub fn new(memory: &mut BootMemory<'m, M>, init: RecordInit) -> Result<Self, BootError> {
        let machine = memory.machine();
        let nodes = MemoryNodes::of(memory.map())?;
        let Records { table, init: table_init, claims } = Records::alloc(memory, init)?;
        let caches = PerCpu::carve(&mut memory.early_allocator(), machine.nr_cpus(), |_| CpuCache::new());
        let caches = caches.ok_or(BootError::TooSmall)?;
        let distances = nodes.distances(machine, &mut memory.early_allocator());
        let distances = distances.ok_or(BootError::TooSmall)?;
        let arrays = ZoneArrays::new(memory, &nodes, &table, init).ok_or(BootError::TooSmall)?;
        let deferred = Deferred::new(arrays.deferred, claims, table_init);
        Ok(Self { table, caches, zones: arrays.zones, zone_ranges: arrays.zone_ranges, distances, deferred })
    }

    /// Initialises the records that are not deferred, and frees their frames to the zones.
    pub fn finish(&self, map: &BootMap) {
        let deferred = || self.deferred.ranges().iter().map(|range| range.frames);
        if self.deferred.must_write() && !mutant!("deferred.edge-records-not-written") {
            // SAFETY: the ranges lie in the table's span; nothing else uses the table yet.
            gaps(self.table.span(), deferred()).for_each(|frames| unsafe { self.table.clear(frames) });
        }
        self.deferred.note_written_at_start(self.table.span());
        for (range, (_, init)) in self.zone_ranges.iter().zip(map.usable()) {
            let zone = &self.zones[range.zone as usize];
            gaps(range.frames, deferred()).for_each(|frames| zone.free_range(&self.table, frames, init));
        }
        for range in self.deferred.ranges().iter().filter(|range| range.usable.is_some()) {
            self.zones[range.zone as usize].expect_deferred(range.frames.len());
        }
    }
}

/// The nodes that have usable memory: one zone each.
struct MemoryNodes {
    nodes: [NodeId; MAX_ZONES],
    len: usize,
}

impl MemoryNodes {
    /// By ascending address of their first frame.
    fn of(map: &BootMap) -> Result<Self, BootError> {
        let mut found = Self { nodes: [NodeId(0); MAX_ZONES], len: 0 };
        for (region, _) in map.usable() {
            if found.index(region.node).is_none() {
                *found.nodes.get_mut(found.len).ok_or(BootError::TooManyNodes)? = region.node;
                found.len += 1;
            }
        }
        Ok(found)
    }

    /// Every zone's list of zones by distance, and every CPU's local zone.
    fn distances<'m, M: Machine>(
        &self,
        machine: &M,
        allocator: &mut EarlyAllocator<'_, 'm, M>,
    ) -> Option<DistanceList<'m>> {
        let nodes = &self.nodes[..self.len];
        let distance = |from, to| machine.distance(from, to);
        let (mut row, mut of) = ([0; MAX_ZONES], usize::MAX);
        let by_distance = fill(carve_slice(allocator, self.len * self.len)?, |at| {
            if of != at / nodes.len() {
                of = at / nodes.len();
                sort_by_distance(of, &mut row[..nodes.len()], |zone| distance(nodes[of], nodes[zone]));
            }
            row[at % nodes.len()]
        });
        let local = |cpu: usize| nearest_zone(nodes, machine.node_of(CpuId(cpu as u32)), distance);
        let local_zones = fill(carve_slice(allocator, machine.nr_cpus() as usize)?, local);
        Some(DistanceList { by_distance, local_zones })
    }

    fn index(&self, node: NodeId) -> Option<usize> {
        self.nodes[..self.len].iter().position(|known| *known == node)
    }
}

/// Zones, the ranges of frames that belong to them, and which of those are deferred.
struct ZoneArrays<'m, M: Machine> {
    zones: &'m [Zone<M::Cpu>],
    zone_ranges: &'m [ZoneRange],
    deferred: &'m [DeferredRange<M::Cpu>],
}

impl<'m, M: Machine> ZoneArrays<'m, M> {
    /// Allocates the arrays, and fills them for the rest of the map.
    fn new(
        memory: &mut BootMemory<'m, M>,
        nodes: &MemoryNodes,
        table: &FrameTable<M::Cpu>,
        init: RecordInit,
    ) -> Option<Self> {
        let nr_ranges = memory.map().usable().count();
        let mut allocator = memory.early_allocator();
        let range_slots = carve_slice::<ZoneRange>(&mut allocator, nr_ranges)?;
        let zone_slots = carve_slice::<Zone<M::Cpu>>(&mut allocator, nodes.len)?;
        let deferred_slots = match init {
            RecordInit::Eager => None,
            RecordInit::Deferred => {
                Some(carve_slice::<DeferredRange<M::Cpu>>(&mut allocator, max_deferred_ranges(nr_ranges))?)
            }
        };
        let map = memory.map();
        let managed =
            |node| map.usable().filter(|(r, _)| r.node == node).map(|(r, _)| r.frames().len()).sum();
        let zone = |at: usize| Zone::new(at as u8, nodes.nodes[at], managed(nodes.nodes[at]));
        let zone_of = |node| nodes.index(node).unwrap_or(0) as u8;
        let mut usable = map.usable();
        let range = |_| match usable.next() {
            Some((region, _)) => ZoneRange { frames: region.frames(), zone: zone_of(region.node) },
            None => ZoneRange { frames: PfnRange::default(), zone: 0 },
        };
        let (zones, zone_ranges) = (&*fill(zone_slots, zone), &*fill(range_slots, range));
        let usable = || {
            zone_ranges.iter().zip(map.usable()).map(|(range, (_, init))| (range.frames, range.zone, init))
        };
        let deferred = deferred_slots.map_or(&[][..], |slots| {
            &*fill_some(slots, |push| {
                plan_deferred(table.span(), usable(), |frames, zone, usable| {
                    // Records without memory are zero already.
                    let keeps = usable.is_some() || mutant!("records.hole-deferred");
                    let without = table.without_memory().filter(|_| !keeps);
                    gaps(frames, without).for_each(|part| push(DeferredRange::new(part, zone, usable)));
                });
            })
        });
        Some(Self { zones, zone_ranges, deferred })
    }
}

#[cfg(test)]
#[path = "../tests/setup.rs"]
mod tests;
