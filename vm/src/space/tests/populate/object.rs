//! Populating mappings of objects.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::object::{PRIVATE, fault, in_each, leaf, request};
use crate::space::*;
use crate::units::{Access, Rights};
use std::vec::Vec;

/// MAP_POPULATE fills what there is.
#[test]
fn what_lies_before_the_end_is_populated() {
    in_each(|vm, space| {
        let object = ObjectHandle::new(vm, 2 * PAGE).unwrap();
        for sharing in [Sharing::Shared, Sharing::Private] {
            let request = MapRequest { populate: true, ..request(PRIVATE, 4, sharing) };
            space.map(&request.backed_by(object.at_page(0))).unwrap();
            let is_there = (0..4).map(|page| leaf(&space, PRIVATE + page).is_some());
            assert_eq!(is_there.collect::<Vec<_>>(), [true, true, false, false]);
            let (_, rights) = leaf(&space, PRIVATE).unwrap();
            assert!(rights.contains(Rights::WRITE), "as the program may use it");
        }
        let last = request(PRIVATE, 1, Sharing::Shared);
        assert_eq!(space.map(&last.backed_by(object.at_page(u64::MAX))), Err(Error::Invalid));
        space.map(&last.backed_by(object.at_page(u64::MAX - 1))).unwrap();
        assert_eq!(fault(&space, PRIVATE, Access::Read), Err(FaultError::Beyond));
    });
}
