//! How a fault changes the entry it found: a pure decision.

use crate::machine::{Entry, Leaf, Marker};
use crate::units::{Access, Pfn, Rights};

/// A decision, made without a lock from an entry read once; applied under the table's lock if the entry is
/// still the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Decision {
    /// The entry allows the access: another CPU was faster, or this CPU's TLB knew less.
    Nothing,
    /// Another CPU is changing the entry: give up and try again.
    Wait,
    /// The entry is of a kind that faults do not know: nothing to wait for.
    Refuse,
    /// Map the zero page, which costs no frame.
    MapZeroPage,
    /// Map a zeroed frame of the space's own.
    MapFrame,
    /// Map a zeroed frame of the space's own in the place of the zero page, which other CPUs may still use.
    ReplaceZeroPage,
    /// Map the backing's frame for this page.
    MapBacking,
    /// Give the leaf these rights; its frame stays.
    Allow(Rights),
}

/// The inputs of the decision, besides the entry.
#[derive(Clone, Copy, Debug)]
pub struct FaultInputs {
    /// Whether the mapping is private and filled with zeros.
    pub private_anonymous: bool,
    /// The mapping's rights, which allow the access.
    pub rights: Rights,
    /// The kind of access.
    pub access: Access,
    /// The frame of the zero page.
    pub zero: Pfn,
}

/// Decides how to change `entry`.
#[inline(always)]
pub fn decide(entry: Entry, inputs: FaultInputs) -> Decision {
    match entry {
        Entry::Absent if !inputs.private_anonymous => Decision::MapBacking,
        Entry::Absent if inputs.access == Access::Write => Decision::MapFrame,
        Entry::Absent => Decision::MapZeroPage,
        Entry::Marker(Marker::Unknown) => Decision::Refuse,
        Entry::Marker(Marker::Busy) | Entry::Table(_) => Decision::Wait,
        Entry::Leaf(leaf) => decide_present(leaf, inputs),
    }
}

fn decide_present(leaf: Leaf, inputs: FaultInputs) -> Decision {
    if leaf.rights.contains(inputs.access.needs()) {
        Decision::Nothing
    } else if leaf.pfn != inputs.zero {
        Decision::Allow(inputs.rights)
    } else if inputs.access == Access::Write {
        Decision::ReplaceZeroPage
    } else {
        Decision::Allow(inputs.rights - Rights::WRITE)
    }
}
