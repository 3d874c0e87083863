//! Which zone is asked first: nodes, how far they are from each other, and who wants memory from where.
//!
//! Each zone has the order in which an allocation for its node looks: itself, then the others from near to
//! far, those equally far beginning with the one after itself, so that not all overflow into the same. A
//! CPU's home is the zone nearest to it. An allocation grows a near zone before it looks in a far one.
//!
//! CPUs' caches hold what was last freed there, whatever node it came from. So whoever asks for a place does
//! not look in them.

use super::cache::Stocked;
use super::{AllocRequest, FrameState, Memory, Priority, Zone};
use crate::machine::{Cpu, Machine};
use crate::units::{CpuId, NodeId, NodeMask, Order, Pfn};

/// Where memory is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePlacement {
    /// Near this CPU; else anywhere.
    Local,
    /// On this node, or as near to it as there is any.
    Preferred(NodeId),
    /// On these nodes, nearest to this CPU first, and nowhere else.
    Bind(NodeMask),
}

/// The orders of all zones, and every CPU's home.
#[derive(Debug)]
pub(super) struct Nearness<'m> {
    /// For each zone as many zones as there are, nearest first.
    pub orders: &'m [u8],
    /// By CPU.
    pub homes: &'m [u8],
}

/// The zones, nearest to `own` first: `distance(z)` says how far zone z is. All of `order` is written.
pub(super) fn order_from(own: usize, order: &mut [u8], distance: impl Fn(usize) -> u32) {
    let nr_zones = order.len();
    order.iter_mut().enumerate().for_each(|(at, zone)| *zone = at as u8);
    let turn = |zone: usize| (zone + nr_zones - own) % nr_zones;
    order.sort_unstable_by_key(|&zone| (zone as usize != own, distance(zone as usize), turn(zone as usize)));
}

/// The zone nearest to a node. Ties go to the first.
pub(super) fn home_of(nodes: &[NodeId], of: NodeId, distance: impl Fn(NodeId, NodeId) -> u32) -> u8 {
    let far = |&at: &usize| (nodes[at] != of, distance(of, nodes[at]));
    (0..nodes.len()).min_by_key(far).unwrap_or(0) as u8
}

impl<M: Machine> Memory<'_, M> {
    /// The node that this CPU's allocations come from first.
    pub fn home(&self, cpu: CpuId) -> NodeId {
        self.zones[self.home_zone(cpu)].node()
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

    fn home_zone(&self, cpu: CpuId) -> usize {
        self.nearness.homes.get(cpu.index()).map_or(0, |&zone| zone as usize)
    }

    /// The zones that may give, in order.
    pub(super) fn zones_from(&self, placement: FramePlacement) -> impl Iterator<Item = &Zone<M::Cpu>> {
        let first = match placement {
            FramePlacement::Preferred(node) => {
                self.zones.iter().position(|zone| zone.node() == node).unwrap_or(0)
            }
            FramePlacement::Local | FramePlacement::Bind(_) => self.home_zone(M::Cpu::id()),
        };
        let allowed = match placement {
            FramePlacement::Bind(nodes) => nodes,
            FramePlacement::Local | FramePlacement::Preferred(_) => NodeMask::ALL,
        };
        let nr_zones = self.zones.len();
        let order = &self.nearness.orders[first * nr_zones..][..nr_zones];
        order.iter().map(|&at| &self.zones[at as usize]).filter(move |zone| allowed.contains(zone.node()))
    }

    /// A frame from where it is wanted.
    #[must_use = "frames that are not freed are leaked"]
    pub fn alloc_frame_from(&self, placement: FramePlacement, ask: AllocRequest) -> Option<Pfn> {
        if placement == FramePlacement::Local {
            return self.alloc_frame(ask);
        }
        if self.mishap.strikes() {
            return None;
        }
        self.alloc_frame_past_cache(placement, ask)
    }

    /// A frame straight from a zone.
    pub(super) fn alloc_frame_past_cache(&self, placement: FramePlacement, ask: AllocRequest) -> Option<Pfn> {
        let from = |zone: &Zone<M::Cpu>| zone.take(&self.table, Order::BASE, ask.priority);
        let (pfn, init) = self.search(placement, Order::BASE, ask.priority, from)?;
        let own = self.caches.get_cpu();
        own.came_in.add_own(1);
        own.past_stack.add_own(1);
        drop(own);
        self.meta_of(pfn).set_state(FrameState::cached(init));
        Some(self.hand_out(pfn, init, ask.init))
    }

    /// Looks in every zone, growing those that can, while any can; and once more with the caches drained,
    /// which finds every frame that is free at that moment. Who can do without looks once.
    pub(super) fn search(
        &self,
        placement: FramePlacement,
        order: Order,
        priority: Priority,
        mut from: impl FnMut(&Zone<M::Cpu>) -> Option<Stocked>,
    ) -> Option<Stocked> {
        loop {
            let may_grow = self.zones_from(placement).any(|zone| zone.may_grow(order, priority));
            if let Some(found) = self.look(placement, order, priority, &mut from) {
                return Some(found);
            }
            if !may_grow || mutant!("nodes.growth-not-awaited") {
                break;
            }
            M::Cpu::relax();
        }
        let look = || self.zones_from(placement).find_map(from);
        if priority == Priority::NoWait {
            return None;
        }
        if mutant!("nodes.looked-after-drain") {
            return if self.drain() > 0 { look() } else { None };
        }
        self.drain_and(look).1
    }

    /// Looks in every zone, growing those that have nothing to give.
    pub(super) fn look<R>(
        &self,
        placement: FramePlacement,
        order: Order,
        priority: Priority,
        mut from: impl FnMut(&Zone<M::Cpu>) -> Option<R>,
    ) -> Option<R> {
        self.zones_from(placement).find_map(|zone| {
            loop {
                let found = from(zone);
                if found.is_some() || !self.grow(zone, order, priority) {
                    return found;
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_zones_come_first_and_equally_far_ones_in_turn() {
        let far = [10, 20, 20, 30];
        let mut order = [0; 4];
        order_from(0, &mut order, |zone| far[zone]);
        assert_eq!(order, [0, 1, 2, 3]);
        order_from(2, &mut order, |zone| [20, 20, 10, 20][zone]);
        assert_eq!(order, [2, 3, 0, 1]);
        // Firmware may say that another is as near as oneself, or nearer.
        order_from(1, &mut order, |zone| [5, 10, 10, 10][zone]);
        assert_eq!(order, [1, 0, 2, 3]);
    }

    #[test]
    fn a_cpu_whose_node_has_no_memory_is_at_home_on_the_nearest() {
        let nodes = [NodeId(0), NodeId(3), NodeId(7)];
        let far = |from: NodeId, to: NodeId| from.0.abs_diff(to.0);
        assert_eq!([0, 3, 5, 6, 9].map(|node| home_of(&nodes, NodeId(node), far)), [0, 1, 1, 2, 2]);
        assert_eq!(home_of(&nodes, NodeId(7), |_, _| 10), 2);
    }
}
