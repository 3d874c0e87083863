//! CPUs, nodes and sets of nodes.

use core::fmt;

/// A CPU, counted from 0. A CPU is never a thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct CpuId(pub u32);

/// A NUMA node, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct NodeId(pub u32);

/// A set of nodes below [`MAX_NODES`], as a plain value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NodeMask(u64);

/// Number of nodes that a [`NodeMask`] can name.
pub const MAX_NODES: usize = 64;

impl NodeMask {
    /// Every node.
    pub const ALL: Self = Self(u64::MAX);
    /// No node.
    pub const EMPTY: Self = Self(0);

    /// The set of one node; empty for a node beyond [`MAX_NODES`].
    pub const fn of(node: NodeId) -> Self {
        Self(if (node.0 as usize) < MAX_NODES { 1 << node.0 } else { 0 })
    }
    /// One bit for each node of the set; all ones for every node.
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// The set of which [`NodeMask::bits`] is `bits`.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
    /// The union of both sets.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// Whether the node is in the set; every node is in [`NodeMask::ALL`].
    pub const fn contains(self, node: NodeId) -> bool {
        self.0 == u64::MAX || Self::of(node).0 & self.0 != 0
    }
}

impl CpuId {
    /// Index into an array with one element for each CPU.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cpu {}", self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

impl fmt::Debug for NodeMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries((0..MAX_NODES as u32).map(NodeId).filter(|&node| self.contains(node))).finish()
    }
}
