//! Decisions of a fault about the entry it found.

use crate::machine::{Entry, Leaf, LeafKind, Marker};
use crate::space::fault::decide::{self, Decision, FaultInputs, Goal};
use crate::table::{Poison, SlotMarker, SwapSlot};
use crate::units::{Access, Pfn, Rights};

const ZERO: Pfn = Pfn(7);
const ALL: Rights = Rights::READ.union(Rights::WRITE).union(Rights::USER);

fn decide(entry: Entry, access: Access) -> Decision {
    let inputs = FaultInputs {
        is_anonymous: true,
        has_object: false,
        is_private: true,
        is_tracked: false,
        rights: ALL,
        access,
        zero: ZERO,
    };
    decide::decide(entry, inputs, Goal::Access)
}

fn leaf(pfn: Pfn, rights: Rights) -> Entry {
    let kind = if pfn == ZERO { LeafKind::NOT_OWNED } else { LeafKind::OWNED };
    Entry::Leaf(Leaf { kind, ..Leaf::new(pfn, rights).used(false) })
}

#[test]
fn reads_of_an_absent_page_map_the_zero_page_and_writes_a_frame() {
    assert_eq!(decide(Entry::Absent, Access::Read), Decision::MapZeroPage);
    assert_eq!(decide(Entry::Absent, Access::Write), Decision::MapFrame);
    let zero_page = leaf(ZERO, Rights::READ | Rights::USER);
    assert_eq!(decide(zero_page, Access::Write), Decision::ReplaceZeroPage);
    assert_eq!(decide(zero_page, Access::Read), Decision::Nothing);
}

#[test]
fn a_leaf_that_lost_rights_gets_those_of_the_mapping_back() {
    assert_eq!(decide(leaf(Pfn(9), Rights::empty()), Access::Read), Decision::Allow(ALL));
    let zero = decide(leaf(ZERO, Rights::empty()), Access::Read);
    assert_eq!(zero, Decision::Allow(Rights::READ | Rights::USER));
}

#[test]
fn a_marker_is_waited_for_if_it_is_known() {
    assert_eq!(decide(Entry::Marker(Marker::UNKNOWN), Access::Read), Decision::Refuse);
    assert_eq!(decide(SlotMarker::Busy.entry(), Access::Read), Decision::Wait);
    assert_eq!(decide(SlotMarker::PendingFree(Pfn(9)).entry(), Access::Read), Decision::WaitForZap);
    assert_eq!(decide(SlotMarker::Migrating(Pfn(9)).entry(), Access::Read), Decision::Wait);
    assert_eq!(decide(SlotMarker::Guard.entry(), Access::Read), Decision::Deny);
}

/// What a source has made is filled by it, and by no other: anonymous memory makes no marker yet.
#[test]
fn a_marker_of_a_source_is_refused_in_anonymous_memory() {
    let swap = SlotMarker::Swap(SwapSlot { exclusive: true, device: 3, offset: 9 });
    let made = [SlotMarker::HugetlbReserved, SlotMarker::Poisoned(Poison::HugetlbUnmapped), swap];
    for marker in made {
        assert_eq!(decide(marker.entry(), Access::Write), Decision::Refuse);
    }
}

/// Of an object's page in a private mapping a load gets back what it may have, and a store copies.
#[test]
fn an_objects_page_in_a_private_mapping_is_never_given_the_right_to_write() {
    let of = |entry, access| {
        let inputs = FaultInputs {
            is_anonymous: false,
            has_object: true,
            is_private: true,
            is_tracked: false,
            rights: ALL,
            access,
            zero: ZERO,
        };
        decide::decide(entry, inputs, Goal::Access)
    };
    let read_only = ALL - Rights::WRITE;
    assert_eq!(of(Entry::Absent, Access::Read), Decision::MapSource(read_only));
    assert_eq!(of(Entry::Absent, Access::Write), Decision::CopySource);
    assert_eq!(of(leaf(Pfn(9), Rights::empty()), Access::Read), Decision::Allow(read_only));
    assert_eq!(of(leaf(Pfn(9), read_only), Access::Write), Decision::AllowWrite(ALL));
    let pfn_leaf = Entry::Leaf(Leaf::new(Pfn(9), read_only).used(false));
    assert_eq!(of(pfn_leaf, Access::Write), Decision::Refuse);
}

/// A page that is clean is shown without the right to write: a store asks for it.
#[test]
fn a_load_of_a_page_whose_stores_are_followed_gets_no_right_to_write() {
    let of = |entry, access| {
        let (is_anonymous, has_object, is_private, is_tracked) = (false, true, false, true);
        let (rights, zero) = (ALL, ZERO);
        let inputs = FaultInputs { is_anonymous, has_object, is_private, is_tracked, rights, access, zero };
        decide::decide(entry, inputs, Goal::Access)
    };
    let read_only = ALL - Rights::WRITE;
    assert_eq!(of(Entry::Absent, Access::Read), Decision::MapSource(read_only));
    assert_eq!(of(Entry::Absent, Access::Write), Decision::MapSource(ALL));
    assert_eq!(of(leaf(Pfn(9), Rights::empty()), Access::Read), Decision::Allow(read_only));
    assert_eq!(of(leaf(Pfn(9), read_only), Access::Write), Decision::Allow(ALL));
}

/// The lock would find no frame to allow writes of, nor one to copy, so the fault would be tried for ever.
#[test]
fn a_leaf_of_a_pfn_mapping_without_the_right_is_refused() {
    let pfn_leaf = |rights| Entry::Leaf(Leaf::new(Pfn(9), rights).used(false));
    for access in [Access::Read, Access::Write] {
        assert_eq!(decide(pfn_leaf(Rights::empty()), access), Decision::Refuse);
        assert_eq!(decide(pfn_leaf(ALL), access), Decision::Nothing);
    }
}
