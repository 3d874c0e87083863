//! CPUs, nodes and sets of CPUs.

use core::fmt;

/// Number of CPUs that a [`CpuMask`] can name.
pub const MAX_CPUS: usize = 256;

/// A CPU, counted from 0. A CPU is never a thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct CpuId(pub u32);

/// A NUMA node, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct NodeId(pub u32);

/// A set of CPUs, as a plain value.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuMask {
    words: [u64; MAX_CPUS / 64],
}

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

impl CpuMask {
    /// No CPU.
    pub const EMPTY: Self = Self { words: [0; MAX_CPUS / 64] };

    /// The CPUs `0..n`, at most [`MAX_CPUS`].
    pub fn first(n: u32) -> Self {
        let mut mask = Self::EMPTY;
        (0..n.min(MAX_CPUS as u32)).for_each(|cpu| mask.insert(CpuId(cpu)));
        mask
    }
    /// The set with the given words, 64 CPUs each, lowest first.
    pub const fn from_words(words: [u64; MAX_CPUS / 64]) -> Self {
        Self { words }
    }
    /// Adds a CPU; one beyond [`MAX_CPUS`] is ignored.
    pub fn insert(&mut self, cpu: CpuId) {
        if let Some(word) = self.words.get_mut(cpu.index() / 64) {
            *word |= 1 << (cpu.0 % 64);
        }
    }
    /// Removes a CPU.
    pub fn remove(&mut self, cpu: CpuId) {
        if let Some(word) = self.words.get_mut(cpu.index() / 64) {
            *word &= !(1 << (cpu.0 % 64));
        }
    }
    /// Whether the CPU is in the set.
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.words.get(cpu.index() / 64).is_some_and(|word| word >> (cpu.0 % 64) & 1 == 1)
    }
    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }
    /// Number of CPUs in the set.
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }
    /// The CPUs in ascending order.
    pub fn iter(&self) -> CpuMaskIter {
        CpuMaskIter { rest: *self }
    }
}

/// Iterator over the CPUs of a [`CpuMask`].
#[derive(Debug)]
pub struct CpuMaskIter {
    rest: CpuMask,
}

impl Iterator for CpuMaskIter {
    type Item = CpuId;

    fn next(&mut self) -> Option<CpuId> {
        let (at, word) = self.rest.words.iter_mut().enumerate().find(|(_, word)| **word != 0)?;
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        Some(CpuId(at as u32 * 64 + bit))
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

impl fmt::Debug for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
#[path = "tests/cpu.rs"]
mod tests;
