//! The NUMA memory policy of a mapping.

use crate::frame::FramePlacement;
use crate::units::{NodeId, NodeMask};
use core::fmt;

/// The memory policy of a mapping, in one word.
///
/// | bits 0-2 | meaning of the nodes in bits 3-31 |
/// |---|---|
/// | 0 | none: memory comes from near the CPU that faults |
/// | 1 | *preferred*: from this one node, else from the nearest that has memory |
/// | 2 | *bind*: from these nodes only, nearest first |
/// | 3 | *interleave*: page by page from each of these in turn |
///
/// Nodes from 29 on cannot be named.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct Policy(u32);

const MODE_BITS: u32 = 3;
const PREFERRED: u32 = 1;
const BIND: u32 = 2;
const INTERLEAVE: u32 = 3;

impl Policy {
    /// Near the CPU that faults.
    pub const LOCAL: Self = Self(0);
    /// Nodes from this one on cannot be named.
    pub const MAX_NODES: u32 = u32::BITS - MODE_BITS;

    /// From this node first. `None` where the node cannot be named.
    pub fn preferred(node: NodeId) -> Option<Self> {
        Self::of(PREFERRED, 1u64.checked_shl(node.0)?)
    }
    /// From the nodes of these bits only. `None` where there is none, or one that cannot be named.
    pub fn bind(nodes: u64) -> Option<Self> {
        Self::of(BIND, nodes)
    }
    /// From the nodes of these bits in turn. `None` where there is none, or one that cannot be named.
    pub fn interleave(nodes: u64) -> Option<Self> {
        Self::of(INTERLEAVE, nodes)
    }

    fn of(mode: u32, nodes: u64) -> Option<Self> {
        let named = nodes != 0 && nodes >> Self::MAX_NODES == 0;
        named.then_some(Self((nodes as u32) << MODE_BITS | mode))
    }

    /// Whether memory comes from near the CPU that faults.
    #[inline(always)]
    pub const fn is_local(self) -> bool {
        self.0 == 0
    }

    /// The nodes it names, as bits.
    pub const fn nodes(self) -> u64 {
        (self.0 >> MODE_BITS) as u64
    }

    /// Placement of the frame for a page. `offset` is the page's number within the backing, so that
    /// interleaving does not depend on how mappings are split.
    pub fn placement(self, offset: u64) -> FramePlacement {
        match self.0 & ((1 << MODE_BITS) - 1) {
            PREFERRED => FramePlacement::Preferred(NodeId(self.nodes().trailing_zeros())),
            BIND => FramePlacement::Bind(self.mask()),
            INTERLEAVE => FramePlacement::Preferred(self.nth(offset)),
            _ => FramePlacement::Local,
        }
    }

    fn mask(self) -> NodeMask {
        let nodes = (0..Self::MAX_NODES).filter(|node| self.nodes() >> node & 1 == 1);
        nodes.fold(NodeMask::EMPTY, |mask, node| mask.with(NodeMask::of(NodeId(node))))
    }

    /// The node for the page `offset`: the nodes in turn.
    fn nth(self, offset: u64) -> NodeId {
        let mut nodes = self.nodes();
        (0..offset % u64::from(nodes.count_ones())).for_each(|_| nodes &= nodes - 1);
        NodeId(nodes.trailing_zeros())
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = ["local", "preferred", "bind", "interleave"][(self.0 & 3) as usize];
        if self.is_local() { f.write_str(mode) } else { write!(f, "{mode} {:#b}", self.nodes()) }
    }
}
