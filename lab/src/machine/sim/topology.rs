//! Which CPUs share a last-level cache (a *cluster*), and which share memory (a *node*).

use super::profile::Costs;
use interleaf::units::MAX_NODES;

/// How CPUs fill the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// One node after the other.
    #[default]
    Filled,
    /// All nodes alike, at least two of them: each CPU is on the node of its number modulo their number.
    Spread,
}

/// How far a line has to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Distance {
    /// From a CPU of the same cluster.
    Cluster,
    /// From another cluster of the node.
    Node,
    /// From another node.
    Remote,
}

/// Bits of a set of clusters: a cluster has the bit of its number modulo these.
const MASK_BITS: u16 = 64;

/// The place of each CPU.
#[derive(Clone, Debug)]
pub(super) struct Topology {
    places: Vec<(u16, u16)>,
    /// The clusters of each node.
    node_masks: Vec<u64>,
}

impl Topology {
    pub(super) fn new(costs: &Costs, nr_cpus: u32, placement: Placement) -> Self {
        let nr_nodes = nr_nodes(costs, nr_cpus, placement);
        let clusters_of_node = (costs.node_cpus as u32).div_ceil(costs.cluster_cpus as u32);
        let place = |cpu: u32| {
            let (node, within) = match placement {
                Placement::Filled => (cpu / costs.node_cpus as u32, cpu % costs.node_cpus as u32),
                Placement::Spread => (cpu % nr_nodes, cpu / nr_nodes),
            };
            ((node * clusters_of_node + within / costs.cluster_cpus as u32) as u16, node as u16)
        };
        let places: Vec<_> = (0..nr_cpus).map(place).collect();
        let mut node_masks = vec![0; nr_nodes as usize];
        places.iter().for_each(|&(cluster, node)| node_masks[node as usize] |= bit(cluster));
        Self { places, node_masks }
    }

    #[inline]
    pub(super) fn node(&self, cpu: u32) -> u32 {
        self.places[cpu as usize].1.into()
    }

    pub(super) fn nr_nodes(&self) -> usize {
        self.node_masks.len()
    }

    /// The CPU's cluster, as a set.
    #[inline]
    pub(super) fn cluster_mask(&self, cpu: u32) -> u64 {
        bit(self.places[cpu as usize].0)
    }

    /// The clusters of the CPU's node.
    #[inline]
    pub(super) fn node_mask(&self, cpu: u32) -> u64 {
        self.node_masks[self.places[cpu as usize].1 as usize]
    }

    #[inline]
    pub(super) fn distance(&self, from: u32, to: u32) -> Distance {
        let (from, to) = (self.places[from as usize], self.places[to as usize]);
        if from.0 == to.0 {
            Distance::Cluster
        } else if from.1 == to.1 {
            Distance::Node
        } else {
            Distance::Remote
        }
    }
}

fn bit(cluster: u16) -> u64 {
    1 << (cluster % MASK_BITS)
}

/// Number of nodes that so many CPUs take.
pub(super) fn nr_nodes(costs: &Costs, nr_cpus: u32, placement: Placement) -> u32 {
    let filled = nr_cpus.div_ceil(costs.node_cpus as u32);
    match placement {
        Placement::Filled => filled,
        Placement::Spread => filled.clamp(2, MAX_NODES as u32),
    }
}
