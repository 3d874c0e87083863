//! The distance list: which zones an allocation asks, nearest first.
//!
//! Each zone has a list of all zones: itself, then the others by distance, those equally far beginning with
//! the one after itself, so that not all overflow into the same. A CPU's local zone is the one nearest to it.
//! An allocation initialises deferred blocks of a near zone before it asks a far one. (Linux: `zonelist`.)

use super::Zone;
use crate::frame::{FramePlacement, Memory};
use crate::machine::{Cpu, Machine};
use crate::units::{CpuId, NodeId, NodeMask, Pfn};

/// For each zone all zones by distance, and every CPU's local zone.
#[derive(Debug)]
pub(in crate::frame) struct DistanceList<'m> {
    /// One row for each zone, with as many zones as there are, nearest first.
    pub by_distance: &'m [u8],
    /// By CPU.
    pub local_zones: &'m [u8],
}

/// Fills `row` with all zones, nearest to `own` first: `distance(z)` says how far zone z is.
pub(in crate::frame) fn sort_by_distance(own: usize, row: &mut [u8], distance: impl Fn(usize) -> u32) {
    let nr_zones = row.len();
    row.iter_mut().enumerate().for_each(|(at, zone)| *zone = at as u8);
    let turn = |zone: usize| (zone + nr_zones - own) % nr_zones;
    row.sort_unstable_by_key(|&zone| (zone as usize != own, distance(zone as usize), turn(zone as usize)));
}

/// The zone nearest to a node; the first of several.
pub(in crate::frame) fn nearest_zone(
    nodes: &[NodeId],
    of: NodeId,
    distance: impl Fn(NodeId, NodeId) -> u32,
) -> u8 {
    let far = |&at: &usize| (nodes[at] != of, distance(of, nodes[at]));
    (0..nodes.len()).min_by_key(far).unwrap_or(0) as u8
}

impl DistanceList<'_> {
    /// The index of the zone that is nearest to a CPU.
    #[inline]
    pub fn local_zone(&self, cpu: CpuId) -> usize {
        self.local_zones.get(cpu.index()).map_or(0, |&zone| zone as usize)
    }
}

impl<C: Cpu> Zone<'_, C> {
    /// The nodes whose CPUs may help with the zone's memory: its own where that has CPUs, else all (memory
    /// behind a link).
    pub(in crate::frame) fn helper_nodes<M: Machine<Cpu = C>>(&self, machine: &M) -> NodeMask {
        let (node, own) = (self.node(), NodeMask::of(self.node()));
        let has_cpu = (0..machine.nr_cpus()).any(|cpu| machine.node_of(CpuId(cpu)) == node);
        if has_cpu && own != NodeMask::EMPTY { own } else { NodeMask::ALL }
    }
}

impl<M: Machine> Memory<'_, M> {
    /// The node that a CPU's allocations come from first.
    pub fn local_node(&self, cpu: CpuId) -> NodeId {
        self.zones[self.distances.local_zone(cpu)].node()
    }

    /// The nodes with memory, nearest to `node` first; nearest to the first node with memory where `node` has
    /// none.
    pub fn fallback_order(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.zones_from(FramePlacement::Preferred(node)).map(Zone::node)
    }

    /// Whether any of the nodes has memory.
    pub fn has_memory_on(&self, nodes: NodeMask) -> bool {
        self.zones.iter().any(|zone| nodes.contains(zone.node()))
    }

    /// The node of a frame.
    pub fn node_of(&self, pfn: Pfn) -> NodeId {
        self.zone_of(pfn).node()
    }

    /// The zones that the placement allows, in order.
    pub(in crate::frame) fn zones_from(
        &self,
        placement: FramePlacement,
    ) -> impl Iterator<Item = &Zone<'_, M::Cpu>> {
        let first = match placement {
            FramePlacement::Preferred(node) => {
                self.zones.iter().position(|zone| zone.node() == node).unwrap_or(0)
            }
            FramePlacement::Local | FramePlacement::Bind(_) | FramePlacement::PreferredMany(_) => {
                self.distances.local_zone(M::Cpu::id())
            }
        };
        let (wanted, takes_others) = match placement {
            FramePlacement::Bind(nodes) => (nodes, false),
            FramePlacement::PreferredMany(nodes) => (nodes, true),
            FramePlacement::Local | FramePlacement::Preferred(_) => (NodeMask::ALL, false),
        };
        let nr_zones = self.zones.len();
        let row = &self.distances.by_distance[first * nr_zones..][..nr_zones];
        let zones = || row.iter().map(|&at| &self.zones[at as usize]);
        let others = zones().filter(move |zone| takes_others && !wanted.contains(zone.node()));
        zones().filter(move |zone| wanted.contains(zone.node())).chain(others)
    }
}

#[cfg(test)]
#[path = "../tests/distance.rs"]
mod tests;
