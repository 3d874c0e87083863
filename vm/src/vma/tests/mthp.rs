//! Which mTHP sizes a write may use.

use crate::units::{Order, Vpn, VpnRange};
use crate::vma::{Backing, HugePolicy, MthpPolicies, MthpPolicy, ObjectId, OrderSet, ThpDisable};
use crate::vma::{VmaAttributes, VmaFlags, orders_to_try};
use std::vec::Vec;

fn anonymous(start: u64, end: u64) -> VmaAttributes {
    VmaAttributes::anonymous(VpnRange::new(Vpn(start), Vpn(end)), VmaFlags::READ | VmaFlags::WRITE)
}

/// The orders where all sizes are used always.
fn orders(vma: &VmaAttributes, page: u64) -> Vec<u8> {
    let sizes = MthpPolicies::all(MthpPolicy::Always);
    let orders = orders_to_try(sizes, HugePolicy::Never, ThpDisable::None, vma, Vpn(page));
    (0..16).filter(|&order| orders.contains(Order(order))).collect()
}

#[test]
fn each_size_has_a_policy_of_its_own() {
    use MthpPolicy::*;
    let sizes = MthpPolicies::NEVER.with(Order(2), Inherit).with(Order(5), Madvise).with(Order(8), Always);
    let policies: Vec<_> = MthpPolicies::orders().map(|order| sizes.policy(order)).collect();
    assert_eq!(policies, [Inherit, Never, Never, Madvise, Never, Never, Always]);
    assert_eq!(sizes.with(Order(5), Never).policy(Order(5)), Never);
    for order in [0, 1, 9, 10, 255].map(Order) {
        assert_eq!((sizes.with(order, Always), sizes.policy(order)), (sizes, Never));
        assert_eq!(MthpPolicies::index(order), None);
    }
    assert!(MthpPolicies::NEVER.is_never() && !sizes.is_never() && !MthpPolicies::all(Inherit).is_never());
    let resolved = [Never, Madvise, Always, Inherit].map(|policy| policy.resolve(HugePolicy::Always));
    assert_eq!(resolved, [HugePolicy::Never, HugePolicy::Madvise, HugePolicy::Always, HugePolicy::Always]);
}

#[test]
fn a_folio_lies_in_one_private_mapping() {
    assert_eq!(orders(&anonymous(0, 256), 77), [2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(orders(&anonymous(1, 256), 77), [2, 3, 4, 5, 6]);
    assert_eq!(orders(&anonymous(0, 79), 77), []);
    assert_eq!(orders(&anonymous(0, 80), 77), [2, 3, 4]);
    assert_eq!(orders(&anonymous(76, 80), 77), [2]);
    assert_eq!(orders(&anonymous(76, 80), 79), [2]);
    let backed =
        VmaAttributes { backing: Backing::Object(ObjectId::new(1).unwrap()).into(), ..anonymous(0, 256) };
    assert_eq!(orders(&backed, 77), []);
}

#[test]
fn the_largest_of_a_set_of_orders_is_tried_first() {
    let set = OrderSet::EMPTY.with(Order(2)).with(Order(18)).with(Order(4)).with(Order(32));
    assert_eq!(set.largest(), Some(Order(18)));
    let set = set.without(Order(18)).without(Order(7)).without(Order(200));
    assert_eq!((set.largest(), set.contains(Order(2))), (Some(Order(4)), true));
    assert_eq!(set.without(Order(4)).without(Order(2)), OrderSet::EMPTY);
    assert_eq!((OrderSet::EMPTY.largest(), OrderSet::EMPTY.is_empty()), (None, true));
}
