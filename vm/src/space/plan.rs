//! What a fault does about the entry it found: a pure decision.

use crate::machine::{Entry, Leaf};
use crate::units::{Access, Pfn, Rights};

/// What to do, decided without a lock from an entry read once; carried out under the table's lock if the
/// entry is still that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Plan {
    /// The entry allows the access: somebody else was faster, or the CPU remembered less.
    Nothing,
    /// The entry is in somebody's hands.
    Wait,
    /// Show the zero page, which costs nothing.
    ShowZero,
    /// Install a zeroed frame of the space's own.
    Own,
    /// Put a zeroed frame of the space's own in the place of the zero page, which other CPUs may still show.
    ReplaceZero,
    /// Show the backing's frame for this page.
    ShowBacking,
    /// Give the leaf these rights; its frame stays.
    Allow(Rights),
}

/// What the decision rests on, besides the entry.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// Whether the mapping is private and filled with zeroes.
    pub private_anonymous: bool,
    /// What the mapping allows: the access, and more.
    pub rights: Rights,
    /// What is wanted.
    pub access: Access,
    /// The frame of the zero page.
    pub zero: Pfn,
}

/// Decides.
#[inline(always)]
pub fn plan(entry: Entry, given: Given) -> Plan {
    match entry {
        Entry::Absent if !given.private_anonymous => Plan::ShowBacking,
        Entry::Absent if given.access == Access::Write => Plan::Own,
        Entry::Absent => Plan::ShowZero,
        Entry::Marker(_) | Entry::Table(_) => Plan::Wait,
        Entry::Leaf(leaf) => plan_present(leaf, given),
    }
}

fn plan_present(leaf: Leaf, given: Given) -> Plan {
    if leaf.rights.contains(given.access.needs()) {
        Plan::Nothing
    } else if leaf.pfn != given.zero {
        Plan::Allow(given.rights)
    } else if given.access == Access::Write {
        Plan::ReplaceZero
    } else {
        Plan::Allow(given.rights - Rights::WRITE)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::machine::Marker;

    const ZERO: Pfn = Pfn(7);
    const ALL: Rights = Rights::READ.union(Rights::WRITE).union(Rights::USER);

    fn plan(entry: Entry, access: Access) -> Plan {
        super::plan(entry, Given { private_anonymous: true, rights: ALL, access, zero: ZERO })
    }

    fn leaf(pfn: Pfn, rights: Rights) -> Entry {
        Entry::Leaf(Leaf { pfn, rights, accessed: true, dirty: false })
    }

    #[test]
    fn reads_of_nothing_show_the_zero_page_and_writes_get_a_frame() {
        assert_eq!(plan(Entry::Absent, Access::Read), Plan::ShowZero);
        assert_eq!(plan(Entry::Absent, Access::Write), Plan::Own);
        let shown = leaf(ZERO, Rights::READ | Rights::USER);
        assert_eq!(plan(shown, Access::Write), Plan::ReplaceZero);
        assert_eq!(plan(shown, Access::Read), Plan::Nothing);
    }

    #[test]
    fn a_leaf_that_lost_rights_gets_those_of_the_mapping_back() {
        assert_eq!(plan(leaf(Pfn(9), Rights::empty()), Access::Read), Plan::Allow(ALL));
        let zero = plan(leaf(ZERO, Rights::empty()), Access::Read);
        assert_eq!(zero, Plan::Allow(Rights::READ | Rights::USER));
    }

    #[test]
    fn a_marker_is_waited_for() {
        assert_eq!(plan(Entry::Marker(Marker::Busy), Access::Read), Plan::Wait);
    }
}
