//! Pins of pages of objects.

use crate::frame::PinnedFrame;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::object::{
    Limit, PRIVATE, SHARED, Space, at, in_each, leaf, load, map_both, store,
};
use crate::space::*;
use crate::table::FastPinRefusal;
use crate::units::{Access, Pfn};
use crate::vma::VmaFlags;
use std::vec::Vec;

/// The frame that a pin gets, which is dropped again.
fn pinned(space: &Space<'_>, page: u64, access: Access) -> Result<Pfn, Error> {
    let limit = Limit::new(9);
    let slots: Vec<_> = [None].into();
    let pins = space.pin_pages(at(page), access, &limit, slots)?;
    Ok(pins.frames().map(PinnedFrame::pfn).next().unwrap())
}

fn refusal(space: &Space<'_>, page: u64, access: Access) -> Option<FastPinRefusal> {
    let (limit, slots) = (Limit::new(9), Vec::from([None]));
    space.try_pin_fast(at(page), access, &limit, slots, &space.vm().read()).err()
}

/// Else a device goes on with the object's page once the program has stored to its own.
#[test]
fn a_pin_gets_a_copy_which_the_program_keeps() {
    for access in [Access::Read, Access::Write] {
        in_each(|vm, space| {
            let _object = map_both(vm, &space, 4);
            store(&space, SHARED, 1);
            assert_eq!(load(&space, PRIVATE), 1);
            assert_eq!(refusal(&space, PRIVATE, Access::Read), Some(FastPinRefusal::NotPinnable));
            // One whose page is shown, and one that no entry shows.
            for page in [0, 1] {
                let pfn = pinned(&space, PRIVATE + page, access).unwrap();
                assert_eq!(leaf(&space, PRIVATE + page).unwrap().0, pfn);
                assert_ne!(space.inspect().resident_frame(at(SHARED + page).vpn()).unwrap().0, pfn);
                store(&space, PRIVATE + page, 2);
                assert_eq!(leaf(&space, PRIVATE + page).unwrap().0, pfn, "the page keeps the pinned frame");
                assert_eq!(refusal(&space, PRIVATE + page, Access::Write), None);
            }
            assert_eq!((load(&space, SHARED), load(&space, SHARED + 1)), (1, 0));
        });
    }
}

#[test]
fn a_pin_of_shared_memory_is_one_of_the_objects_page() {
    in_each(|vm, space| {
        let _object = map_both(vm, &space, 4);
        store(&space, SHARED, 1);
        let pfn = leaf(&space, SHARED).unwrap().0;
        assert_eq!(refusal(&space, SHARED, Access::Read), None);
        assert_eq!(pinned(&space, SHARED, Access::Write), Ok(pfn));
        space.protect(at(SHARED), 4 * PAGE, VmaFlags::READ).unwrap();
        // The entry might be one of a private mapping: the lock tells.
        assert_eq!(refusal(&space, SHARED, Access::Read), Some(FastPinRefusal::NotPinnable));
        assert_eq!(pinned(&space, SHARED, Access::Read), Ok(pfn));
        assert_eq!(pinned(&space, SHARED, Access::Write), Err(Error::Fault));
    });
}
