//! What a fault does about the entry it found: a pure decision.

use crate::machine::{Entry, Leaf};
use crate::units::{Access, Pfn, Rights};
use crate::vma::VmaSpec;

/// What to do, decided without a lock from an entry read once; carried out under the table's lock if the entry is still that.
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

/// Decides. The mapping allows the access; `zero` is the frame of the zero page.
#[inline(always)]
pub fn plan(entry: Entry, vma: &VmaSpec, access: Access, zero: Pfn) -> Plan {
    match entry {
        Entry::Marker(_) | Entry::Table(_) => Plan::Wait,
        Entry::Absent if !vma.is_private_anonymous() => Plan::ShowBacking,
        Entry::Absent if access == Access::Write => Plan::Own,
        Entry::Absent => Plan::ShowZero,
        Entry::Leaf(leaf) => plan_present(leaf, vma, access, zero),
    }
}

#[inline(always)]
fn plan_present(leaf: Leaf, vma: &VmaSpec, access: Access, zero: Pfn) -> Plan {
    if leaf.rights.contains(access.needs()) {
        Plan::Nothing
    } else if leaf.pfn != zero {
        Plan::Allow(vma.rights())
    } else if access == Access::Write {
        Plan::ReplaceZero
    } else {
        Plan::Allow(vma.rights() - Rights::WRITE)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::machine::Marker;
    use crate::units::{Vpn, VpnRange};
    use crate::vma::VmaFlags;

    const ZERO: Pfn = Pfn(7);

    fn memory() -> VmaSpec {
        VmaSpec::anonymous(VpnRange::new(Vpn(1), Vpn(9)), VmaFlags::READ | VmaFlags::WRITE)
    }

    fn leaf(pfn: Pfn, rights: Rights) -> Entry {
        Entry::Leaf(Leaf { pfn, rights, accessed: true, dirty: false })
    }

    #[test]
    fn reads_of_nothing_show_the_zero_page_and_writes_get_a_frame() {
        assert_eq!(plan(Entry::Absent, &memory(), Access::Read, ZERO), Plan::ShowZero);
        assert_eq!(plan(Entry::Absent, &memory(), Access::Write, ZERO), Plan::Own);
        let shown = leaf(ZERO, Rights::READ | Rights::USER);
        assert_eq!(plan(shown, &memory(), Access::Write, ZERO), Plan::ReplaceZero);
        assert_eq!(plan(shown, &memory(), Access::Read, ZERO), Plan::Nothing);
    }

    #[test]
    fn a_leaf_that_lost_rights_gets_those_of_the_mapping_back() {
        let all = Rights::READ | Rights::WRITE | Rights::USER;
        assert_eq!(plan(leaf(Pfn(9), Rights::empty()), &memory(), Access::Read, ZERO), Plan::Allow(all));
        let zero = plan(leaf(ZERO, Rights::empty()), &memory(), Access::Read, ZERO);
        assert_eq!(zero, Plan::Allow(Rights::READ | Rights::USER));
    }

    #[test]
    fn a_marker_is_waited_for() {
        assert_eq!(plan(Entry::Marker(Marker::Busy), &memory(), Access::Read, ZERO), Plan::Wait);
    }
}
