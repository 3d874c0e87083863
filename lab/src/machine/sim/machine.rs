//! A machine whose CPUs and memory lie on nodes.

use super::cpu::Sim;
use super::scenario::Setting;
use super::topology::{Placement, nr_nodes};
use crate::machine::soft::{Fill, MachineConfig, SoftMachine};
use interleaf::frame::{BootMap, Init, Region, RegionKind};
use interleaf::machine::Format;
use interleaf::units::{MAX_NODES, NodeId, PAGE_SIZE, Pfn, PfnRange};
use std::io;
use std::ops::Range;

/// The first frame, as on a PC not the first of a round block.
const FIRST: Pfn = Pfn(256);

/// A machine of virtual time, with as much memory on each node. The library knows at most [`MAX_NODES`]
/// nodes: where there are more, neighbours are one node to it.
#[derive(Debug)]
pub struct NodeMachine<F: Format> {
    soft: SoftMachine<Sim, F>,
    nr_nodes: u32,
    frames_of_node: u64,
    merged: u32,
}

/// Where memory lies.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryPlan {
    /// Host addresses.
    pub(super) host: Range<usize>,
    /// Pages that follow each other on one node.
    pub(super) pages_of_node: u32,
    /// Nodes of the profile that are one to the library.
    pub(super) merged: u32,
}

impl<F: Format> NodeMachine<F> {
    /// A machine of `nr_cpus` CPUs with at least `frames` frames all together.
    ///
    /// # Errors
    /// What the host says.
    pub fn new(setting: &Setting, nr_cpus: u32, frames: u64) -> io::Result<Self> {
        let sockets = nr_nodes(&setting.costs, nr_cpus, setting.placement);
        let merged = sockets.div_ceil(MAX_NODES as u32);
        let nr_nodes = sockets.div_ceil(merged);
        let frames_of_node = frames.div_ceil(nr_nodes.into());
        let all = PfnRange::new(FIRST, FIRST.add(frames_of_node * u64::from(nr_nodes)));
        let config = MachineConfig { nr_cpus, regions: vec![all], fill: Fill::Sparse };
        // Records lie in the machine's memory too, so that their lines have the same numbers in every run.
        let soft = SoftMachine::new(&config)?.without_record_windows();
        let soft = match setting.placement {
            Placement::Filled => soft.with_cpus_of_node(setting.costs.node_cpus as u32 * merged),
            Placement::Spread => soft.with_nodes(nr_nodes),
        };
        Ok(Self { soft, nr_nodes, frames_of_node, merged })
    }

    /// The machine that the library runs on.
    pub fn soft(&self) -> &SoftMachine<Sim, F> {
        &self.soft
    }

    /// Its memory, each node's part a region, all of it dirty as far as the library is told.
    pub fn boot_map(&self) -> BootMap {
        let region = |node: u32| Region {
            start: FIRST.add(u64::from(node) * self.frames_of_node).addr(),
            len_bytes: self.frames_of_node * PAGE_SIZE as u64,
            kind: RegionKind::Usable(Init::Dirty),
            node: NodeId(node),
        };
        BootMap::new(&(0..self.nr_nodes).map(region).collect::<Vec<_>>()).expect("regions that ascend")
    }

    /// Where its memory lies.
    pub(super) fn memory_plan(&self) -> MemoryPlan {
        let start = self.soft.arena().window(FIRST.addr()).addr().get();
        let len_bytes = (u64::from(self.nr_nodes) * self.frames_of_node) as usize * PAGE_SIZE;
        let (host, pages_of_node) = (start..start + len_bytes, self.frames_of_node as u32);
        MemoryPlan { host, pages_of_node, merged: self.merged }
    }
}
