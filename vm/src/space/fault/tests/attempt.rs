//! Which mapping an attempt uses.

use crate::machine::testing::TestCpu;
use crate::space::fault::attempt::unless_replaced;
use crate::units::{Vpn, VpnRange};
use crate::vma::{Vma, VmaAttributes, VmaFlags, VmaState};
use core::ptr;

#[test]
fn only_a_mapping_that_was_replaced_is_looked_for_again() {
    let attributes = VmaAttributes::anonymous(VpnRange::new(Vpn(4), Vpn(6)), VmaFlags::READ);
    let record = |state| Vma::<TestCpu>::new(attributes, state);
    let (live, stale, busy) = (record(VmaState::Live), record(VmaState::Stale), record(VmaState::Busy));
    let not_again = || panic!("looked for again");
    assert!(unless_replaced::<TestCpu>(None, not_again).is_none());
    assert!(unless_replaced(Some(&live), not_again).is_some_and(|vma| ptr::eq(vma, &live)));
    for old in [&stale, &busy] {
        assert!(unless_replaced(Some(old), || Some(&live)).is_some_and(|vma| ptr::eq(vma, &live)));
        assert!(unless_replaced(Some(old), || None).is_none());
    }
}
