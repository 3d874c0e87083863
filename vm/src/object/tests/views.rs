//! The numbers of views.

use super::numbers_of;
use crate::object::ViewPlace;
use crate::units::{SpaceId, Vpn};
use core::num::NonZeroU64;
use std::collections::BTreeSet;

/// Spaces and objects have small numbers, and forks show objects at the same addresses.
#[test]
fn views_of_small_numbers_at_one_address_have_numbers_of_their_own() {
    let mut numbers = BTreeSet::new();
    for object in (1..=64).filter_map(NonZeroU64::new) {
        for space in 0..64 {
            for first in [0, 1, 1 << 35] {
                let place = ViewPlace::new(SpaceId(space), Vpn(first), 0);
                assert!(numbers_of(object, place).all(|number| numbers.insert(number)), "{object} {place:?}");
            }
        }
    }
}
