//! Allocation requests: contents, priority, placement.

use super::Init;
use crate::units::{NodeId, NodeMask};

/// A request for frames. Linux: `gfp_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocRequest {
    /// The required contents: `Dirty` for any.
    pub init: Init,
    /// How far the allocation may go.
    pub priority: Priority,
}

/// How far an allocation may go to succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Takes memory that is free now: neither waits nor disturbs other CPUs. For read sections. Linux:
    /// `GFP_NOWAIT`.
    NoWait,
    /// May wait and drain other CPUs' caches, but leaves the reserve. Linux: `GFP_KERNEL`.
    Normal,
    /// For callers that free memory by using some: may take the last frame. Linux: `__GFP_MEMALLOC`.
    Reserve,
}

/// The nodes from which memory is wanted. Linux: `mempolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePlacement {
    /// Near this CPU; else anywhere.
    Local,
    /// On this node, or as near to it as possible.
    Preferred(NodeId),
    /// On these nodes, nearest to this CPU first, and nowhere else.
    Bind(NodeMask),
    /// On these nodes, nearest to this CPU first; else on any other, nearest first.
    PreferredMany(NodeMask),
}

impl AllocRequest {
    /// Any contents, normal priority.
    pub const DIRTY: Self = Self { init: Init::Dirty, priority: Priority::Normal };
    /// Zeroed, normal priority.
    pub const ZEROED: Self = Self { init: Init::Zeroed, priority: Priority::Normal };

    /// The same with another priority.
    pub const fn with_priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }
}
