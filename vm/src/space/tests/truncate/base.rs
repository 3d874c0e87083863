//! Truncation and holes, of base pages.

use crate::machine::testing::TestMachine;
use crate::space::tests::world::object::{
    Object, PRIVATE, RW, SHARED, Space, TestVm, at, fault, in_each, leaf, load, map, map_both, request, store,
};
use crate::space::tests::world::{PAGE, boot_map, space_of};
use crate::space::*;
use crate::units::{Access, VirtAddr};
use crate::vma::VmaFlags;
use std::cell::OnceCell;
use std::vec::Vec;

/// Gives the object another length, of which these spaces know.
fn truncate<'v>(object: &Object<'v>, len_bytes: u64, spaces: &[&Space<'v>]) -> ObjectReach {
    let hold = |id| spaces.iter().copied().find(|space| space.id() == id);
    let reach = object.set_len_bytes(len_bytes, hold).unwrap();
    assert_eq!(object.len_bytes(), len_bytes);
    reach
}

fn punch<'v>(object: &Object<'v>, bytes: core::ops::Range<u64>, spaces: &[&Space<'v>]) -> ObjectReach {
    let hold = |id| spaces.iter().copied().find(|space| space.id() == id);
    object.punch_hole(bytes.start, bytes.end - bytes.start, hold).unwrap()
}

fn reached(found: u64, missing: u64) -> ObjectReach {
    ObjectReach { found, missing }
}

fn frames(vm: &TestVm<'_>) -> u64 {
    vm.trim();
    vm.memory().check().unwrap().allocated
}

/// The bytes of a page as the program loads them.
fn bytes(space: &Space<'_>, page: u64) -> Vec<u8> {
    let mut bytes = std::vec![0xee; PAGE as usize];
    assert_eq!(space.copy_from(at(page), &mut bytes), Ok(PAGE as usize));
    bytes
}

/// Both accesses end with a bus error, and so does the kernel's own.
fn is_beyond(space: &Space<'_>, page: u64) -> bool {
    let refused = [Access::Read, Access::Write].map(|access| fault(space, page, access));
    let copied = space.copy_from(at(page), &mut [0]);
    if refused[0].is_ok() && refused[1].is_ok() && copied.is_ok() {
        return false;
    }
    assert_eq!(refused, [Err(FaultError::Beyond); 2], "page {page}");
    assert_eq!(copied, Err(Error::Fault), "page {page}");
    true
}

#[test]
fn pages_beyond_a_new_end_are_gone_from_every_mapping_and_from_memory() {
    in_each(|vm, space| {
        let object = map_both(vm, &space, 8);
        for page in 0..8 {
            store(&space, SHARED + page, 1 + page as u8);
        }
        store(&space, PRIVATE + 1, 51);
        store(&space, PRIVATE + 6, 56);
        load(&space, PRIVATE + 5);
        let child = space.fork().unwrap();
        let both = [&space, &child];
        load(&child, SHARED + 4);
        let before = frames(vm);
        assert_eq!(truncate(&object, 3 * PAGE, &both), reached(4, 0));
        assert_eq!(before - frames(vm), 5 + 1, "five pages, and the copy that both spaces had");
        for space in both {
            for page in 0..8 {
                let is_gone = [SHARED, PRIVATE].map(|base| is_beyond(space, base + page));
                assert_eq!(is_gone, [page >= 3; 2], "page {page}");
            }
            assert_eq!([1, 51].map(|byte| byte), [load(space, SHARED), load(space, PRIVATE + 1)]);
        }
        // What it gains is zeros, also where there was a copy.
        assert_eq!(truncate(&object, 8 * PAGE, &both), reached(0, 0));
        for space in both {
            for page in 3..8 {
                assert_eq!((load(space, SHARED + page), load(space, PRIVATE + page)), (0, 0), "page {page}");
            }
        }
        store(&child, SHARED + 6, 9);
        assert_eq!(load(&space, PRIVATE + 6), 9);
    });
}

#[test]
fn the_rest_of_the_last_page_is_zero_after_its_end_has_moved() {
    in_each(|vm, space| {
        let object = map_both(vm, &space, 2);
        for page in 0..2 {
            assert_eq!(space.copy_to(at(SHARED + page), &[7; PAGE as usize]), Ok(PAGE as usize));
        }
        store(&space, PRIVATE, 3);
        assert_eq!(truncate(&object, 100, &[&space]), reached(2, 0));
        let shown = bytes(&space, SHARED);
        assert!(shown[..100].iter().all(|&byte| byte == 7) && shown[100..].iter().all(|&byte| byte == 0));
        let copy = bytes(&space, PRIVATE);
        assert_eq!((copy[0], copy[1], copy[100]), (3, 7, 7), "a copy stays as it is");
        assert!(is_beyond(&space, SHARED + 1));
        // A program may store beyond the end, in the last page: no longer object shows that.
        assert_eq!(space.copy_to(VirtAddr(at(SHARED).0 + 200), &[9]), Ok(1));
        assert_eq!(truncate(&object, 2 * PAGE - 1, &[&space]), reached(0, 0));
        assert!(bytes(&space, SHARED)[100..].iter().all(|&byte| byte == 0));
        assert_eq!(load(&space, SHARED + 1), 0);
        assert_eq!(truncate(&object, 0, &[&space]), reached(2, 0));
        assert!(is_beyond(&space, SHARED) && is_beyond(&space, PRIVATE));
    });
}

#[test]
fn a_hole_shows_zeros_and_leaves_private_copies() {
    in_each(|vm, space| {
        let object = map_both(vm, &space, 8);
        for page in 0..8 {
            assert_eq!(space.copy_to(at(SHARED + page), &[1 + page as u8; PAGE as usize]), Ok(PAGE as usize));
            load(&space, PRIVATE + page);
        }
        store(&space, PRIVATE + 3, 53);
        let before = frames(vm);
        // From the middle of page 1 to the middle of page 5.
        assert_eq!(punch(&object, PAGE + 10..5 * PAGE + 20, &[&space]), reached(2, 0));
        assert_eq!(before - frames(vm), 3);
        assert_eq!([2, 3, 4].map(|page| leaf(&space, SHARED + page)), [None; 3]);
        assert_eq!([2, 4].map(|page| leaf(&space, PRIVATE + page)), [None; 2]);
        let first = [0, 1, 2, 3, 4, 5, 6].map(|page| load(&space, SHARED + page));
        assert_eq!(first, [1, 2, 0, 0, 0, 0, 7]);
        assert_eq!([2, 3, 4].map(|page| load(&space, PRIVATE + page)), [0, 53, 0]);
        let (second, sixth) = (bytes(&space, SHARED + 1), bytes(&space, SHARED + 5));
        assert_eq!((second[9], second[10], second[4095]), (2, 0, 0));
        assert_eq!((sixth[0], sixth[19], sixth[20]), (0, 0, 6));
        // Inside of one page nothing is unmapped.
        assert_eq!(punch(&object, 6 * PAGE + 5..6 * PAGE + 8, &[&space]), reached(0, 0));
        let seventh = bytes(&space, PRIVATE + 6);
        assert_eq!((seventh[4], seventh[5], seventh[7], seventh[8]), (7, 0, 0, 7));
        // Beyond the end there is nothing.
        assert_eq!(punch(&object, 100 * PAGE..200 * PAGE, &[&space]), reached(0, 0));
        assert_eq!(object.len_bytes(), 8 * PAGE);
    });
}

#[test]
fn only_pages_of_the_object_go_and_only_where_they_lie() {
    in_each(|vm, space| {
        let (object, other) =
            (ObjectHandle::new(vm, 8 * PAGE).unwrap(), ObjectHandle::new(vm, 8 * PAGE).unwrap());
        map(&space, &object, (0, 8), Sharing::Shared);
        // Another object, memory of the space's own, and the same object elsewhere lie in the same addresses.
        space.map(&request(3, 1, Sharing::Shared).backed_by(other.at_page(3))).unwrap();
        space.map(&request(4, 1, Sharing::Private)).unwrap();
        space.map(&request(5, 1, Sharing::Shared).backed_by(object.at_page(0))).unwrap();
        space.protect(at(6), PAGE, VmaFlags::READ).unwrap();
        space.unmap(at(7), PAGE).unwrap();
        for page in [0, 1, 2, 3, 4] {
            store(&space, page, 1 + page as u8);
        }
        load(&space, 6);
        assert_eq!(truncate(&object, PAGE, &[&space]), reached(1, 0), "the other view has page 0 alone");
        assert_eq!([0, 3, 4, 5].map(|page| load(&space, page)), [1, 4, 5, 1]);
        assert!([1, 2].iter().all(|&page| is_beyond(&space, page)));
        assert_eq!(fault(&space, 6, Access::Read), Err(FaultError::Beyond));
        assert_eq!(fault(&space, 7, Access::Read), Err(FaultError::NotMapped));
    });
}

#[test]
fn spaces_that_are_not_found_are_told_and_keep_what_they_map() {
    in_each(|vm, space| {
        let object = map_both(vm, &space, 2);
        store(&space, SHARED + 1, 7);
        let child = space.fork().unwrap();
        load(&child, SHARED + 1);
        assert_eq!(truncate(&object, PAGE, &[&child]), reached(2, 2));
        assert!(leaf(&space, SHARED + 1).is_some() && leaf(&child, SHARED + 1).is_none());
    });
}

/// The walk has come to the parent, and has not cleared its entries yet.
#[test]
fn a_child_that_is_made_beside_truncation_is_found_behind_its_parent() {
    in_each(|vm, space| {
        let object = map_both(vm, &space, 2);
        store(&space, PRIVATE + 1, 7);
        let child = OnceCell::new();
        let hold = |id| {
            let child = child.get_or_init(|| space.fork().unwrap());
            [&space, child].into_iter().find(|space| space.id() == id)
        };
        assert_eq!(object.set_len_bytes(PAGE, hold), Ok(reached(4, 0)));
        for space in [&space, child.get().unwrap()] {
            assert!(leaf(space, PRIVATE + 1).is_none() && is_beyond(space, PRIVATE + 1));
        }
    });
}

#[test]
fn spaces_that_were_put_in_are_found_by_their_numbers() {
    let machine = TestMachine::new(1500);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let (space, spaces) = (space_of(&vm), Spaces::new(&vm).unwrap());
    let object = map_both(&vm, &space, 2);
    load(&space, SHARED + 1);
    let child = spaces.insert(space.fork().unwrap()).unwrap();
    [SHARED, PRIVATE].into_iter().for_each(|page| store(&child, page, 3));
    assert_eq!(spaces.punch_hole(&object, 0, PAGE).unwrap(), reached(2, 2));
    assert_eq!([SHARED, PRIVATE].map(|page| load(&child, page)), [0, 3]);
    assert_eq!(spaces.set_object_len_bytes(&object, 0).unwrap(), reached(2, 2));
    assert!(is_beyond(&child, SHARED) && leaf(&space, SHARED + 1).is_some());
}

#[test]
fn lengths_that_no_object_has_and_empty_holes_are_refused() {
    in_each(|vm, space| {
        let object = map_both(vm, &space, 2);
        store(&space, SHARED + 1, 7);
        let hold = |_| Some(&space);
        for len_bytes in [u64::MAX, (1 << 57) + 1] {
            assert_eq!(object.set_len_bytes(len_bytes, hold), Err(Error::Invalid));
        }
        for (offset, len) in [(0, 0), (u64::MAX, 2), (1, u64::MAX)] {
            assert_eq!(object.punch_hole(offset, len, hold), Err(Error::Invalid));
        }
        assert_eq!((object.len_bytes(), load(&space, SHARED + 1)), (2 * PAGE, 7));
        assert_eq!(object.set_len_bytes(1 << 57, hold), Ok(reached(0, 0)));
        assert_eq!(object.punch_hole(0, u64::MAX, hold), Ok(reached(2, 0)));
        assert_eq!(load(&space, SHARED + 1), 0);
        assert_eq!(space.protect(at(SHARED), PAGE, RW), Ok(()));
    });
}

/// A part of the index that no page needs any more goes as a whole, and what is left is found.
#[test]
fn an_index_of_many_pages_gives_its_nodes_back() {
    in_each(|vm, space| {
        let object = ObjectHandle::new(vm, 1 << 40).unwrap();
        space.map(&request(0, 3000, Sharing::Shared).backed_by(object.at_page(0))).unwrap();
        let far = (1 << 27) + 5;
        space.map(&request(4000, 8, Sharing::Shared).backed_by(object.at_page(far))).unwrap();
        let empty = frames(vm);
        for page in [0, 511, 512, 1500, 2999, 4000, 4007] {
            store(&space, page, 1);
        }
        let full = frames(vm);
        assert_eq!(punch(&object, PAGE..(1 << 27) * PAGE, &[&space]), reached(1, 0));
        assert_eq!([0, 4000, 4007].map(|page| load(&space, page)), [1; 3]);
        assert_eq!([511, 512, 1500, 2999].map(|page| leaf(&space, page)), [None; 4]);
        assert_eq!(frames(vm), full - 4 - 3, "pages, and the nodes that have no others");
        assert_eq!(truncate(&object, 0, &[&space]), reached(2, 0));
        assert!(is_beyond(&space, 0) && is_beyond(&space, 4007));
        // Tables of the space stay.
        assert!(frames(vm) - empty < 12);
    });
}

#[test]
fn madv_remove_makes_holes_in_what_shared_mappings_show() {
    in_each(|vm, space| {
        let object = map_both(vm, &space, 8);
        space.map(&request(20, 2, Sharing::Shared)).unwrap();
        space.map(&request(30, 2, Sharing::Private)).unwrap();
        for page in [0, 1, 2, 3, 20, 21, 30] {
            store(&space, page, 7);
        }
        let remove = |page, pages| space.remove(at(page), pages * PAGE, |_| Some(&space));
        assert_eq!(remove(1, 2), Ok(reached(2, 0)));
        assert_eq!([0, 1, 2, 3].map(|page| load(&space, SHARED + page)), [7, 0, 0, 7]);
        assert_eq!(load(&space, PRIVATE + 1), 0);
        assert_eq!(remove(20, 1), Ok(reached(1, 0)), "shared anonymous memory is an object");
        assert_eq!([20, 21].map(|page| load(&space, page)), [0, 7]);
        // Refused: as Linux does, what comes before is done.
        assert_eq!(remove(30, 1), Err(Error::Invalid));
        assert_eq!(remove(PRIVATE, 1), Err(Error::Access));
        assert_eq!(remove(0, 9), Err(Error::NoMemory));
        assert_eq!([0, 3].map(|page| load(&space, SHARED + page)), [0, 0]);
        space.map(&MapRequest { flags: VmaFlags::READ, ..request(40, 1, Sharing::Shared) }).unwrap();
        assert!(remove(40, 1).is_ok(), "a program may get the right to write");
        // Pages that no object has may be mapped.
        let far = request(50, 2, Sharing::Shared).backed_by(object.at_page(u64::MAX - 2));
        space.map(&far).unwrap();
        assert_eq!(remove(50, 2), Ok(reached(1, 0)));
        assert_eq!(load(&space, 21), 7);
        assert_eq!(space.remove(VirtAddr(at(0).0 + 1), PAGE, |_| Some(&space)), Err(Error::Invalid));
        assert_eq!((load(&space, 30), object.len_bytes()), (7, 8 * PAGE));
    });
}
