//! Pins and forced stores in private mappings of objects: never of a page of the object.

use super::*;
use crate::frame::PinnedFrame;
use crate::machine::testing::TestCpu;
use crate::table::FastPinRefusal;
use std::vec::Vec;

type Limit = MemlockLimit<TestCpu>;

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

#[test]
fn a_forced_store_copies_and_gives_the_program_no_right() {
    for rights in [VmaFlags::READ, NO_RIGHTS] {
        in_each(|vm, space| {
            let _object = map_both(vm, &space, 4);
            store(&space, SHARED, 1);
            assert_eq!(load(&space, PRIVATE), 1);
            space.protect(at(PRIVATE), 4 * PAGE, rights).unwrap();
            for page in [0, 1] {
                assert_eq!(space.copy_to(at(PRIVATE + page), &[9]), Err(Error::Fault));
                assert_eq!(space.copy_to_forced(at(PRIVATE + page), &[9]), Ok(1));
                assert!(!leaf(&space, PRIVATE + page).unwrap().1.contains(Rights::WRITE));
                assert_eq!(fault(&space, PRIVATE + page, Access::Write), Err(FaultError::NotAllowed));
            }
            space.protect(at(PRIVATE), 4 * PAGE, VmaFlags::READ).unwrap();
            assert_eq!([0, 1].map(|page| load(&space, PRIVATE + page)), [9, 9]);
            assert_eq!([0, 1].map(|page| load(&space, SHARED + page)), [1, 0]);
            space.protect(at(SHARED), 4 * PAGE, VmaFlags::READ).unwrap();
            assert_eq!(space.copy_to_forced(at(SHARED), &[9]), Err(Error::Fault), "others have it too");
        });
    }
}

#[test]
fn bytes_are_copied_in_and_out_as_a_program_would() {
    in_each(|vm, space| {
        let _object = map_both(vm, &space, 4);
        let mut bytes = [7; 3];
        assert_eq!(space.copy_to(VirtAddr(at(SHARED + 1).0 - 1), &[1, 2, 3]), Ok(3));
        assert_eq!(space.copy_from(VirtAddr(at(PRIVATE + 1).0 - 1), &mut bytes), Ok(3));
        assert_eq!(bytes, [1, 2, 3]);
        assert_eq!(leaf(&space, PRIVATE).unwrap().0, leaf(&space, SHARED).unwrap().0, "a load unshares none");
        assert_eq!(space.copy_to(VirtAddr(at(PRIVATE + 1).0 - 1), &[4, 5]), Ok(2));
        assert_eq!(space.copy_from(VirtAddr(at(PRIVATE + 1).0 - 1), &mut bytes), Ok(3));
        assert_eq!(bytes, [4, 5, 3]);
        assert_eq!(space.copy_from(VirtAddr(at(SHARED + 1).0 - 1), &mut bytes), Ok(3));
        assert_eq!(bytes, [1, 2, 3]);
    });
}

/// The child gets a copy of what is pinned, in the parent's place; the object's pages it finds.
#[test]
fn a_fork_copies_a_pinned_copy() {
    in_each(|vm, space| {
        let _object = map_both(vm, &space, 4);
        store(&space, PRIVATE, 3);
        let limit = Limit::new(9);
        let pins = space.pin_pages(at(PRIVATE), Access::Read, &limit, Vec::from([None, None])).unwrap();
        let child = space.fork().unwrap();
        let frames: Vec<_> = pins.frames().map(PinnedFrame::pfn).collect();
        for (page, pfn) in frames.into_iter().enumerate() {
            let page = PRIVATE + page as u64;
            assert_ne!(leaf(&child, page).unwrap().0, pfn);
            store(&space, page, 4);
            assert_eq!(leaf(&space, page).unwrap().0, pfn);
        }
        assert_eq!([0, 1].map(|page| load(&child, PRIVATE + page)), [3, 0]);
        drop(pins);
    });
}
