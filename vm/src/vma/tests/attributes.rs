//! Attributes of a part, of a moved mapping, and of a record that replaced another.

use crate::units::{Vpn, VpnRange};
use crate::vma::{AnonId, Backing, ObjectId, VmaAttributes, VmaFlags, same_for_fault};

const OBJECT: Backing = Backing::Object(ObjectId::new(1).unwrap());

fn pages(start: u64, end: u64) -> VpnRange {
    VpnRange::new(Vpn(start), Vpn(end))
}

#[test]
fn a_part_keeps_the_offset_of_every_page() {
    let whole = VmaAttributes::backed(pages(100, 110), VmaFlags::READ, OBJECT, 7);
    let part = whole.over(pages(103, 105));
    assert_eq!(part.offset, 10);
    assert_eq!(part.offset_at(Vpn(104)), whole.offset_at(Vpn(104)));
    assert_eq!(part.over(pages(100, 110)), whole);
}

#[test]
fn identities_agree_when_equal_or_one_is_missing_unless_inherited() {
    let (one, two) = (AnonId::new(1), AnonId::new(2));
    assert!(!AnonId::new(0).is_none() && !AnonId::new(1 << 48).is_none(), "whatever the number");
    let child = AnonId::inherited(1);
    assert!(one.agrees(one) && !one.agrees(two) && !one.agrees(child));
    assert!(AnonId::NONE.agrees(AnonId::NONE) && AnonId::NONE.agrees(two) && two.agrees(AnonId::NONE));
    assert!(child.agrees(child) && !child.agrees(AnonId::NONE) && !AnonId::NONE.agrees(child));
    assert_eq!(AnonId::from_bits(child.bits()), child);
}

#[test]
fn moved_memory_gets_a_new_offset_only_while_untouched() {
    let fresh = VmaAttributes::anonymous(pages(4, 6), VmaFlags::READ);
    assert_eq!(fresh.moved_to(pages(20, 22)), VmaAttributes::anonymous(pages(20, 22), VmaFlags::READ));
    let written = VmaAttributes { anon: AnonId::new(3), ..fresh };
    assert_eq!(written.moved_to(pages(20, 22)).offset, 4);
    let object = VmaAttributes::backed(pages(4, 6), VmaFlags::READ, OBJECT, 9);
    assert_eq!(object.moved_to(pages(20, 22)).offset, 9);
}

#[test]
fn a_fault_goes_on_only_under_the_same_rights_backing_and_page() {
    let a = VmaAttributes::anonymous(pages(0, 8), VmaFlags::READ | VmaFlags::WRITE);
    let at = Vpn(5);
    assert!(same_for_fault(&a, &a.over(pages(4, 6)), at));
    assert!(same_for_fault(&a, &a.with_flags(a.flags | VmaFlags::DONT_FORK), at));
    assert!(!same_for_fault(&a, &a.over(pages(0, 5)), at));
    assert!(!same_for_fault(&a, &a.with_flags(VmaFlags::READ), at));
    assert!(!same_for_fault(&a, &VmaAttributes { offset: 1, ..a }, at));
    assert!(!same_for_fault(&a, &VmaAttributes { backing: OBJECT.into(), ..a }, at));
    let object = VmaAttributes::backed(pages(0, 8), VmaFlags::READ, OBJECT, 0);
    assert!(!same_for_fault(&object, &object.with_flags(VmaFlags::READ | VmaFlags::SHARED), at));
}
