//! The memory map of a machine that is made up: its size, its nodes, its holes.

use crate::rng::Rng;
use interleaf::frame::{Init, Region, RegionKind};
use interleaf::units::{NodeId, PAGE_SIZE, Pfn, PfnRange};

/// Frames below the first: as on a PC, memory does not begin at a round block.
const FIRST: u64 = 256;
/// The most holes in a map: a boot map holds 128 regions.
const MOST_HOLES: u64 = 60;

/// Whether there are holes, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holes {
    /// None.
    None,
    /// As this seed draws them: at any frame, several in one block.
    Drawn(u64),
}

/// What machine to make up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryMap {
    /// Frames of memory, holes included.
    pub frames: u64,
    /// Nodes with memory.
    pub nodes: u32,
    /// Holes.
    pub holes: Holes,
}

impl MemoryMap {
    /// The usable regions, each on its node.
    pub fn regions(&self) -> Vec<Region> {
        let mut cuts = self.holes();
        let mut regions = Vec::new();
        for node in 0..self.nodes {
            let mut at = self.node_start(node);
            let end = self.node_start(node + 1);
            while let Some(hole) = cuts.first().copied().filter(|hole| hole.start.0 < end) {
                push(&mut regions, at, hole.start.0, node);
                at = hole.end.0;
                cuts.remove(0);
            }
            push(&mut regions, at, end, node);
        }
        regions
    }

    fn node_start(&self, node: u32) -> u64 {
        FIRST + self.frames * u64::from(node) / u64::from(self.nodes)
    }

    /// Ascending, disjoint, each inside of one node; the end of memory, where the records lie, is left whole.
    fn holes(&self) -> Vec<PfnRange> {
        let Holes::Drawn(seed) = self.holes else { return Vec::new() };
        let mut rng = Rng::new(seed);
        let mut starts: Vec<u64> = Vec::new();
        for _ in 0..MOST_HOLES / 3 {
            let at = FIRST + rng.below(self.frames / 2);
            // Three within a block or two of each other.
            starts.extend((0..3).map(|_| at + rng.below(1500)));
        }
        starts.sort_unstable();
        starts.dedup();
        let mut holes: Vec<PfnRange> = Vec::new();
        for start in starts {
            let long = if rng.below(8) == 0 { self.frames / 256 + 1 } else { 300 };
            let node = (0..self.nodes).find(|&node| start < self.node_start(node + 1)).unwrap_or(0);
            let end = (start + 1 + rng.below(long)).min(self.node_start(node + 1));
            let after = holes.last().map_or(0, |last| last.end.0 + 1);
            if start >= after.max(self.node_start(node)) && start < end {
                holes.push(PfnRange::new(Pfn(start), Pfn(end)));
            }
        }
        holes
    }
}

fn push(regions: &mut Vec<Region>, start: u64, end: u64, node: u32) {
    if start < end {
        regions.push(Region {
            start: Pfn(start).addr(),
            len_bytes: (end - start) * PAGE_SIZE as u64,
            kind: RegionKind::Usable(Init::Dirty),
            node: NodeId(node),
        });
    }
}

#[cfg(test)]
#[path = "tests/memory_map.rs"]
mod tests;
