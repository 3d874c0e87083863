//! The NUMA memory policy of a mapping: what a program asks for, and the word that a mapping keeps.

use crate::frame::FramePlacement;
use crate::units::{NodeId, NodeMask};
use bitflags::bitflags;
use core::fmt;

/// How a policy chooses among its nodes. The values are Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u32)]
#[non_exhaustive]
pub enum PolicyMode {
    /// No policy of its own: near the CPU that faults.
    #[default]
    Default = 0,
    /// From the first of the nodes, else from the nearest that has memory.
    Preferred = 1,
    /// From these nodes only, nearest first.
    Bind = 2,
    /// Page by page from each of the nodes in turn.
    Interleave = 3,
    /// Near the CPU that faults. Placed as [`Default`](Self::Default) is, but another policy: neighbours of
    /// the two are not joined.
    Local = 4,
    /// From these nodes, nearest first, else from anywhere.
    PreferredMany = 5,
    /// As [`Interleave`](Self::Interleave); all nodes have the same weight.
    WeightedInterleave = 6,
}

bitflags! {
    /// How the nodes of a policy are read.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct PolicyFlags: u32 {
        /// The nodes are kept as they were asked for, those without memory too.
        const STATIC = 1;
        /// Node `n` stands for the `n`th node that has memory, counted round.
        const RELATIVE = 2;
        /// The kernel may move pages towards the CPUs that use them. Without effect.
        const BALANCING = 4;
    }
}

/// A memory policy as a program asks for it: any values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PolicyRequest {
    /// How a node is chosen.
    pub mode: PolicyMode,
    /// How the nodes are read.
    pub flags: PolicyFlags,
    /// The nodes, as bits. A node beyond 63 is to be given as bit 63, which no mapping can name either.
    pub nodes: u64,
}

/// The memory policy of a mapping, in one word.
///
/// | bits | meaning |
/// |---|---|
/// | 0-2 | the [`PolicyMode`] |
/// | 3-5 | the [`PolicyFlags`] |
/// | 6-31 | the nodes: those that had memory, or all that were asked for with STATIC or RELATIVE |
///
/// Nodes from 26 on cannot be named.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct Policy(u32);

const MODE_BITS: u32 = 3;
const FLAG_BITS: u32 = 3;
const NODE_SHIFT: u32 = MODE_BITS + FLAG_BITS;

impl PolicyRequest {
    /// The policy that a new mapping has.
    pub const DEFAULT: Self = Self::of(PolicyMode::Default, 0);
    /// Near the CPU that faults.
    pub const LOCAL: Self = Self::of(PolicyMode::Local, 0);

    /// A policy of these nodes, as bits, without flags.
    pub const fn of(mode: PolicyMode, nodes: u64) -> Self {
        Self { mode, flags: PolicyFlags::empty(), nodes }
    }

    /// The policy on a machine whose nodes with memory are `populated`. `None` where Linux says EINVAL: the
    /// nodes do not fit the mode, or none of them has memory, or the flags contradict each other or the mode;
    /// and where a node cannot be named.
    pub fn resolve(self, populated: NodeMask) -> Option<Policy> {
        use PolicyMode::{Bind, Default, Local, Preferred, PreferredMany};
        let Self { mut mode, flags, nodes } = self;
        let keeps_nodes = flags.intersects(KEEPS_NODES);
        let balances = flags.contains(PolicyFlags::BALANCING);
        if flags.contains(KEEPS_NODES) || balances && !matches!(mode, Bind | PreferredMany) {
            return None;
        }
        if mode == Preferred && nodes == 0 {
            mode = Local;
        }
        match mode {
            // STATIC and RELATIVE say nothing about no nodes.
            Default => return (nodes == 0).then_some(Policy::DEFAULT),
            Local => return (nodes == 0 && !keeps_nodes).then_some(Policy::LOCAL),
            _ => {}
        }
        let kept = if keeps_nodes { nodes } else { first_only(mode, nodes & populated.bits()) };
        let policy = Policy::of(mode, flags, kept)?;
        (policy.effective(populated) != 0).then_some(policy)
    }
}

/// With one of these the nodes are kept as asked for.
const KEEPS_NODES: PolicyFlags = PolicyFlags::STATIC.union(PolicyFlags::RELATIVE);

/// A preference is for one node.
fn first_only(mode: PolicyMode, nodes: u64) -> u64 {
    if mode == PolicyMode::Preferred { nodes & nodes.wrapping_neg() } else { nodes }
}

impl Policy {
    /// No policy: that of a new mapping.
    pub const DEFAULT: Self = Self(0);
    /// Near the CPU that faults, as asked for by a program.
    pub const LOCAL: Self = Self(PolicyMode::Local as u32);
    /// Nodes from this one on cannot be named.
    pub const MAX_NODES: u32 = u32::BITS - NODE_SHIFT;

    fn of(mode: PolicyMode, flags: PolicyFlags, nodes: u64) -> Option<Self> {
        let fits = nodes >> Self::MAX_NODES == 0;
        fits.then_some(Self((nodes as u32) << NODE_SHIFT | flags.bits() << MODE_BITS | mode as u32))
    }

    /// Whether it is that of a new mapping.
    #[inline(always)]
    pub const fn is_default(self) -> bool {
        self.0 == 0
    }

    /// How it chooses a node.
    pub const fn mode(self) -> PolicyMode {
        match self.0 & ((1 << MODE_BITS) - 1) {
            1 => PolicyMode::Preferred,
            2 => PolicyMode::Bind,
            3 => PolicyMode::Interleave,
            4 => PolicyMode::Local,
            5 => PolicyMode::PreferredMany,
            6 => PolicyMode::WeightedInterleave,
            _ => PolicyMode::Default,
        }
    }

    /// How its nodes are read.
    pub const fn flags(self) -> PolicyFlags {
        PolicyFlags::from_bits_truncate(self.0 >> MODE_BITS)
    }

    /// The nodes it keeps, as bits.
    pub const fn nodes(self) -> u64 {
        (self.0 >> NODE_SHIFT) as u64
    }

    /// The nodes with memory that it means, as bits, where `populated` are all that have memory.
    pub fn effective(self, populated: NodeMask) -> u64 {
        let populated = populated.bits();
        let meant = if self.flags().contains(PolicyFlags::RELATIVE) && populated != 0 {
            bits_of(self.nodes()).fold(0, |all, node| all | 1 << nth(populated, node.into()))
        } else {
            self.nodes() & populated
        };
        first_only(self.mode(), meant)
    }

    /// Placement of the frame for a page. `offset` is the page's number within the backing, so that
    /// interleaving does not depend on how mappings are split; `populated` are the nodes with memory.
    pub fn placement(self, offset: u64, populated: NodeMask) -> FramePlacement {
        let nodes = self.effective(populated);
        match self.mode() {
            _ if nodes == 0 => FramePlacement::Local,
            PolicyMode::Default | PolicyMode::Local => FramePlacement::Local,
            PolicyMode::Preferred => FramePlacement::Preferred(NodeId(nodes.trailing_zeros())),
            PolicyMode::Bind => FramePlacement::Bind(NodeMask::from_bits(nodes)),
            PolicyMode::PreferredMany => FramePlacement::PreferredMany(NodeMask::from_bits(nodes)),
            PolicyMode::Interleave | PolicyMode::WeightedInterleave => {
                FramePlacement::Preferred(NodeId(nth(nodes, offset)))
            }
        }
    }
}

/// The set bits, ascending.
fn bits_of(word: u64) -> impl Iterator<Item = u32> {
    (0..u64::BITS).filter(move |bit| word >> bit & 1 == 1)
}

/// The set bit number `n` of a word that is not 0, counted round.
fn nth(word: u64, n: u64) -> u32 {
    let mut rest = word;
    (0..n % u64::from(word.count_ones())).for_each(|_| rest &= rest - 1);
    rest.trailing_zeros()
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.mode())?;
        if !self.flags().is_empty() {
            write!(f, " {:?}", self.flags())?;
        }
        if self.nodes() == 0 { Ok(()) } else { write!(f, " {:#b}", self.nodes()) }
    }
}
