//! How a fault changes the entry that it found: a pure decision, made without a lock, the same at all levels.

use crate::machine::{Entry, Leaf};
use crate::table::{OnFault, fault_rule};
use crate::units::{Access, Pfn, Rights};

/// What a fault is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The access.
    Access,
    /// A pin of the base page: private memory gets a folio that is *exclusive*, whatever the access.
    Pin,
}

/// A decision; applied under the table's lock if the entry is still the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Decision {
    /// The entry allows the access: another CPU was faster, or this CPU's TLB knew less.
    Nothing,
    /// Another CPU is changing the entry: give up and try again.
    Wait,
    /// A sweep has left a frame there until it has flushed: wait for the end of its call.
    WaitForZap,
    /// The entry is poisoned: a bus error.
    Poisoned,
    /// The entry is of a kind that faults do not know: nothing to wait for.
    Refuse,
    /// There is never a page: as where nothing is mapped.
    Deny,
    /// Map the zero page.
    MapZeroPage,
    /// Map a zeroed frame of the space's own.
    MapFrame,
    /// Map memory of the space's own in the place of zeros, which other CPUs may still use.
    ReplaceZeroPage,
    /// Map what the source has for the page, with these rights: an object's page in a private mapping is not
    /// to be written.
    MapSource(Rights),
    /// Map a copy of that.
    CopySource,
    /// Give the leaf these rights; its folio stays.
    Allow(Rights),
    /// Give the leaf of private memory these rights, to write too: in place, if its folio is exclusive or can
    /// become so; else with a copy. The lock decides.
    AllowWrite(Rights),
}

/// The inputs of the decision, besides the entry.
#[derive(Clone, Copy, Debug)]
pub struct FaultInputs {
    /// Whether the mapping is of anonymous memory.
    pub is_anonymous: bool,
    /// Whether an object has pages of it.
    pub has_object: bool,
    /// Whether stores are the mapping's alone.
    pub is_private: bool,
    /// Whether a load shows a page without the right to write, as its first store is followed.
    pub is_tracked: bool,
    /// The mapping's rights, which allow the access.
    pub rights: Rights,
    /// The kind of access.
    pub access: Access,
    /// The first frame of the zeros that a leaf may show.
    pub zero: Pfn,
}

/// Decides how to change `entry`.
#[inline(always)]
pub fn decide(entry: Entry, inputs: FaultInputs, goal: Goal) -> Decision {
    if goal == Goal::Pin {
        return decide_pin(entry, inputs);
    }
    match entry {
        Entry::Absent if !inputs.is_anonymous => decide_source(inputs),
        Entry::Absent if inputs.access == Access::Write => Decision::MapFrame,
        Entry::Absent => Decision::MapZeroPage,
        Entry::Leaf(leaf) => decide_present(leaf, inputs),
        other => decide_marker(other, inputs),
    }
}

#[inline(always)]
fn decide_marker(entry: Entry, inputs: FaultInputs) -> Decision {
    let marker = match entry {
        Entry::Marker(marker) => marker,
        Entry::Table(_) => return Decision::Wait,
        Entry::Absent | Entry::Leaf(_) => return Decision::Refuse,
    };
    match fault_rule(marker) {
        Some(OnFault::WaitForZap) if mutant!("fault.pending-trusted") => Decision::MapFrame,
        Some(OnFault::WaitForZap) => Decision::WaitForZap,
        Some(OnFault::Wait) => Decision::Wait,
        Some(OnFault::Deny) => Decision::Deny,
        Some(OnFault::Fill) if !inputs.is_anonymous => decide_source(inputs),
        Some(OnFault::BusError) if !inputs.is_anonymous => Decision::Poisoned,
        // No source of the mapping's made it.
        Some(OnFault::Fill | OnFault::BusError) | None => Decision::Refuse,
    }
}

#[inline(always)]
fn decide_source(inputs: FaultInputs) -> Decision {
    // No other mapping has what another source gives: there is nothing to copy.
    let is_copied = inputs.is_private && inputs.has_object && inputs.access == Access::Write;
    if is_copied { Decision::CopySource } else { Decision::MapSource(shown(inputs)) }
}

/// The rights of a leaf that a load gets back, or gets.
#[inline(always)]
fn shown(inputs: FaultInputs) -> Rights {
    let is_private = inputs.is_private && inputs.has_object && !mutant!("fault.object-page-writable");
    let is_clean =
        inputs.is_tracked && inputs.access != Access::Write && !mutant!("fault.clean-page-writable");
    if is_private || is_clean { inputs.rights - Rights::WRITE } else { inputs.rights }
}

fn decide_pin(entry: Entry, inputs: FaultInputs) -> Decision {
    match entry {
        Entry::Absent if inputs.is_anonymous => Decision::MapFrame,
        Entry::Absent if inputs.is_private && inputs.has_object => Decision::CopySource,
        Entry::Leaf(leaf) if leaf.pfn == inputs.zero => Decision::ReplaceZeroPage,
        Entry::Leaf(leaf) if !leaf.owned() => Decision::Refuse,
        Entry::Leaf(_) if inputs.is_private => Decision::AllowWrite(inputs.rights),
        entry => decide(entry, inputs, Goal::Access),
    }
}

#[inline(always)]
fn decide_present(leaf: Leaf, inputs: FaultInputs) -> Decision {
    if leaf.rights.contains(inputs.access.needs()) {
        Decision::Nothing
    } else if inputs.is_private && !leaf.owned() && leaf.pfn != inputs.zero {
        // Frames of others in private memory: no record says whether they may be written, or copied.
        Decision::Refuse
    } else if leaf.pfn != inputs.zero {
        let copies = inputs.is_private && inputs.access == Access::Write;
        if copies { Decision::AllowWrite(inputs.rights) } else { Decision::Allow(shown(inputs)) }
    } else if inputs.access == Access::Write {
        Decision::ReplaceZeroPage
    } else {
        Decision::Allow(inputs.rights - Rights::WRITE)
    }
}
