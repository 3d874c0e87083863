//! Early set-up: frame records, per-CPU caches and zones in boot memory, and the frames that the zones get
//! before the first allocation.
//!
//! [`EarlySetup::new`] allocates everything from the boot map, so that the zones manage the rest of the map.
//! [`EarlySetup::finish`] initialises the records that are not deferred and frees their frames to the zones.

use super::deferred::{Deferred, DeferredRange, gaps, max_deferred_ranges, plan_deferred};
use super::records::Records;
use super::{BootError, BootMap, BootMemory, EarlyAllocator};
use crate::frame::percpu::CpuCache;
use crate::frame::zone::{DistanceList, RegionPlan, ZonePlace, ZoneRange};
use crate::frame::zone::{nearest_zone, sort_by_distance};
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
    /// [`DeferredInit::initialise`](crate::frame::DeferredInit::initialise).
    Deferred,
}

/// The state that is set up before [`Memory`](crate::frame::Memory) exists.
pub(in crate::frame) struct EarlySetup<'m, M: Machine> {
    pub table: FrameTable<'m, M::Cpu>,
    pub caches: PerCpu<'m, CpuCache<M::Cpu>, M::Cpu>,
    pub zones: &'m [Zone<'m, M::Cpu>],
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
        let arrays = ZoneArrays::new(memory, &nodes, &distances, &table, init).ok_or(BootError::TooSmall)?;
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
    zones: &'m [Zone<'m, M::Cpu>],
    zone_ranges: &'m [ZoneRange],
    deferred: &'m [DeferredRange<M::Cpu>],
}

impl<'m, M: Machine> ZoneArrays<'m, M> {
    /// Allocates the arrays, and fills them for the rest of the map.
    fn new(
        memory: &mut BootMemory<'m, M>,
        nodes: &MemoryNodes,
        distances: &DistanceList<'m>,
        table: &FrameTable<M::Cpu>,
        init: RecordInit,
    ) -> Option<Self> {
        let nr_ranges = memory.map().usable().count();
        let zones = carve_zones(memory, nodes, distances)?;
        let mut allocator = memory.early_allocator();
        let range_slots = carve_slice::<ZoneRange>(&mut allocator, nr_ranges)?;
        let deferred_slots = match init {
            RecordInit::Eager => None,
            RecordInit::Deferred => {
                Some(carve_slice::<DeferredRange<M::Cpu>>(&mut allocator, max_deferred_ranges(nr_ranges))?)
            }
        };
        let map = memory.map();
        zones.iter_mut().for_each(|zone| zone.manage(frames_of(map, zone.node()).map(PfnRange::len).sum()));
        let zone_of = |node| nodes.index(node).unwrap_or(0) as u8;
        let mut usable = map.usable();
        let range = |_| match usable.next() {
            Some((region, _)) => ZoneRange { frames: region.frames(), zone: zone_of(region.node) },
            None => ZoneRange { frames: PfnRange::default(), zone: 0 },
        };
        let (zones, zone_ranges) = (&*zones, &*fill(range_slots, range));
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

/// The usable ranges of a node.
fn frames_of(map: &BootMap, node: NodeId) -> impl Iterator<Item = PfnRange> {
    map.usable().filter(move |(region, _)| region.node == node).map(|(region, _)| region.frames())
}

/// A zone for each node, without free frames and not yet told how many it manages, in boot memory.
fn carve_zones<'m, M: Machine>(
    memory: &mut BootMemory<'m, M>,
    nodes: &MemoryNodes,
    distances: &DistanceList<'m>,
) -> Option<&'m mut [Zone<'m, M::Cpu>]> {
    let (map, nr_cpus) = (memory.map(), distances.local_zones.len());
    let near = |zone: usize| distances.local_zones.iter().filter(|local| **local as usize == zone).count();
    let plan = |zone: usize| {
        let frames = || frames_of(map, nodes.nodes[zone]);
        let span = frames().reduce(|all, range| PfnRange::new(all.start.min(range.start), range.end));
        let cpus = if near(zone) == 0 { nr_cpus } else { near(zone) };
        RegionPlan::new(span.unwrap_or_default(), frames().map(PfnRange::len).sum(), cpus as u64)
    };
    let plans: [RegionPlan; MAX_ZONES] =
        core::array::from_fn(|zone| if zone < nodes.len { plan(zone) } else { RegionPlan::default() });
    let mut allocator = memory.early_allocator();
    let slots = carve_slice::<Zone<'m, M::Cpu>>(&mut allocator, nodes.len)?;
    let zones = fill_some(slots, |push| {
        for (at, (&node, plan)) in nodes.nodes[..nodes.len].iter().zip(plans).enumerate() {
            // CPUs near the zone begin one after the other, each after as large a part of it; so do the
            // others.
            let (mut seen, cpus_near) = (0, near(at));
            let home = |cpu: CpuId| {
                let is_near = distances.local_zones[cpu.index()] as usize == at;
                let home = if is_near { (seen, cpus_near) } else { (cpu.index(), nr_cpus) };
                seen += usize::from(is_near);
                home
            };
            let place = ZonePlace { index: at as u8, node };
            Zone::carve(&mut allocator, place, plan, nr_cpus as u32, home).into_iter().for_each(&mut *push);
        }
    });
    (zones.len() == nodes.len).then_some(zones)
}

#[cfg(test)]
#[path = "../tests/setup.rs"]
mod tests;
