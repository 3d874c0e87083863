//! Pages of an object that a load of another one maps.

use crate::machine::testing::TestMachine;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::object::{
    Object, PRIVATE, RW, SHARED, Space, TestVm, at, fault, leaf, load, map, on, request, store, vm_with,
};
use crate::space::*;
use crate::units::{Access, Rights};
use crate::vma::VmaFlags;
use std::vec::Vec;

/// Runs the test under both proofs with a window of so many bytes.
fn with_window(fault_around_bytes: u64, test: impl Fn(&TestVm<'_>, Space<'_>)) {
    for path in [Path::Speculative, Path::Locked] {
        let machine = TestMachine::new(1500);
        let vm = vm_with(&machine, VmOptions { fault_around_bytes, ..VmOptions::default() });
        on(&vm, path, &test);
    }
}

/// An object of 64 pages that has every page but each third.
fn object<'v>(vm: &'v TestVm<'_>) -> Object<'v> {
    let object = ObjectHandle::new(vm, 64 * PAGE).unwrap();
    for page in (0..64).filter(|page| page % 3 != 0) {
        assert_eq!(object.write_at(page * PAGE, &[page as u8]), Ok(1));
    }
    object
}

fn present(space: &Space<'_>, pages: core::ops::Range<u64>) -> Vec<u64> {
    pages.filter(|&page| leaf(space, page).is_some()).collect()
}

#[test]
fn a_load_maps_what_the_object_has_in_its_aligned_window() {
    with_window(16 * PAGE, |vm, space| {
        let object = object(vm);
        for (base, sharing) in [(SHARED, Sharing::Shared), (PRIVATE, Sharing::Private)] {
            map(&space, &object, (base, 64), sharing);
            assert_eq!(load(&space, base + 20), 20);
            let due: Vec<_> = (base + 16..base + 32).filter(|page| (page - base) % 3 != 0).collect();
            assert_eq!(present(&space, base..base + 64), due);
            for page in due {
                assert_eq!(object.frame_of(page - base), leaf(&space, page).map(|(frame, _)| frame));
                assert_eq!(load(&space, page), (page - base) as u8);
                let may_write = leaf(&space, page).unwrap().1.contains(Rights::WRITE);
                assert_eq!(may_write, sharing == Sharing::Shared, "page {page}");
            }
        }
        assert_eq!((vm.totals().get(Counter::FaultAroundMapped), object.frame_of(30)), (2 * 10, None));
        // A store to a private mapping copies its page alone, a store to a shared one maps it alone.
        store(&space, PRIVATE + 40, 1);
        store(&space, SHARED + 40, 2);
        assert_eq!(present(&space, SHARED + 32..SHARED + 64), [SHARED + 40]);
        assert_eq!(present(&space, PRIVATE + 32..PRIVATE + 64), [PRIVATE + 40]);
        // A copy stays in a window that is mapped later.
        load(&space, PRIVATE + 41);
        assert_eq!((load(&space, PRIVATE + 40), load(&space, SHARED + 40)), (1, 2));
        assert!(leaf(&space, PRIVATE + 47).is_some());
    });
}

#[test]
fn a_window_ends_where_its_mapping_or_its_object_does() {
    with_window(16 * PAGE, |vm, space| {
        let object = object(vm);
        space.map(&request(5, 8, Sharing::Shared).backed_by(object.at_page(20))).unwrap();
        space.protect(at(10), PAGE, VmaFlags::READ).unwrap();
        load(&space, 6);
        // The page that may be read only is of another mapping.
        assert_eq!(present(&space, 0..32), [5, 6, 7, 8]);
        space.protect(at(10), PAGE, RW).unwrap();
        let _reach = object.set_len_bytes(26 * PAGE, |_| Some(&space)).unwrap();
        assert_eq!(present(&space, 0..32), [5, 6, 7, 8]);
        space.advise(at(5), 8 * PAGE, Advice::DontNeed).unwrap();
        load(&space, 5);
        assert_eq!(present(&space, 0..32), [5, 6, 7, 8, 10]);
        assert_eq!(fault(&space, 11, Access::Read), Err(FaultError::Beyond));
        drop(object);
    });
}

#[test]
fn a_window_begins_with_its_mapping_if_that_begins_later_and_is_as_long() {
    with_window(16 * PAGE, |vm, space| {
        let object = ObjectHandle::new(vm, 64 * PAGE).unwrap();
        (0..64).for_each(|page| assert_eq!(object.write_at(page * PAGE, &[1]), Ok(1)));
        let filled = |start: u64, touched: u64| {
            space.map(&request(start, 40, Sharing::Private).backed_by(object.at_page(0))).unwrap();
            load(&space, touched);
            let present = present(&space, 0..600);
            space.unmap(at(start), 40 * PAGE).unwrap();
            present
        };
        assert_eq!(filled(5, 11), (5..21).collect::<Vec<_>>());
        assert_eq!(filled(5, 17), (16..32).collect::<Vec<_>>());
        assert_eq!(filled(15, 15), (15..31).collect::<Vec<_>>());
        // A table ends at page 512.
        assert_eq!(filled(505, 507), (505..512).collect::<Vec<_>>());
        drop(object);
    });
}

#[test]
fn the_size_of_a_window_is_a_power_of_two_of_pages() {
    let sizes = [(0, 1), (PAGE, 1), (3 * PAGE, 2), (u64::MAX, 64)];
    for (bytes, due) in sizes {
        with_window(bytes, |vm, space| {
            let object = ObjectHandle::new(vm, 64 * PAGE).unwrap();
            (0..64).for_each(|page| assert_eq!(object.write_at(page * PAGE, &[1]), Ok(1)));
            map(&space, &object, (0, 64), Sharing::Shared);
            load(&space, 8);
            assert_eq!(present(&space, 0..64).len(), due, "{bytes} bytes");
        });
    }
}
