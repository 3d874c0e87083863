//! Private mappings of objects: loads show the object's pages, stores copy them.

use super::*;
use crate::frame::Kind;
use core::ops::ControlFlow;
use std::vec::Vec;

fn copied(vm: &TestVm<'_>) -> u64 {
    vm.totals().get(Counter::CowCopied)
}

#[test]
fn a_private_mapping_shows_the_object_until_a_store_copies_the_page() {
    in_each(|vm, space| {
        let _object = map_both(vm, &space, 4);
        store(&space, SHARED, 1);
        assert_eq!(load(&space, PRIVATE), 1);
        let (shown, rights) = leaf(&space, PRIVATE).unwrap();
        assert_eq!(shown, leaf(&space, SHARED).unwrap().0);
        assert!(!rights.contains(Rights::WRITE), "a store would reach the object");
        store(&space, SHARED, 2);
        assert_eq!(load(&space, PRIVATE), 2);
        store(&space, PRIVATE, 3);
        assert_ne!(leaf(&space, PRIVATE).unwrap().0, shown);
        assert_eq!((load(&space, SHARED), load(&space, PRIVATE), copied(vm)), (2, 3, 1));
        store(&space, SHARED, 4);
        store(&space, PRIVATE, 5);
        assert_eq!((load(&space, SHARED), load(&space, PRIVATE), copied(vm)), (4, 5, 1));
        space.advise(at(PRIVATE), PAGE, Advice::DontNeed).unwrap();
        assert_eq!((load(&space, PRIVATE), leaf(&space, PRIVATE).unwrap().0), (4, shown));
    });
}

/// The first store needs no load before, and the object gets a page for it, as in Linux.
#[test]
fn a_store_to_an_absent_page_copies_the_objects() {
    in_each(|vm, space| {
        let _object = map_both(vm, &space, 4);
        store(&space, SHARED + 1, 7);
        for page in 0..3 {
            fault(&space, PRIVATE + page, Access::Write).unwrap();
            let (own, shared) =
                (leaf(&space, PRIVATE + page).unwrap(), space.inspect().resident_frame(at(page).vpn()));
            assert_eq!(load(&space, PRIVATE + page), if page == 1 { 7 } else { 0 });
            assert!(own.1.contains(Rights::WRITE) && own.0 != shared.unwrap().0);
            assert_eq!(vm.memory().meta(own.0).unwrap().state().kind(), Kind::User);
        }
        assert_eq!(copied(vm), 3);
        assert_eq!(leaf(&space, SHARED), None, "the object has the page, and no entry shows it");
    });
}

#[test]
fn the_object_lives_as_long_as_a_private_mapping_shows_it() {
    in_each(|vm, space| {
        let object = map_both(vm, &space, 4);
        store(&space, SHARED + 2, 9);
        drop(object);
        space.unmap(at(SHARED), 4 * PAGE).unwrap();
        assert_eq!(load(&space, PRIVATE + 2), 9);
        store(&space, PRIVATE + 2, 8);
        let (object, first) = space.object_at(at(PRIVATE + 2)).unwrap();
        space.unmap(at(PRIVATE), 4 * PAGE).unwrap();
        map(&space, &object, (SHARED, 3), Sharing::Shared);
        assert_eq!((load(&space, SHARED + 2), first), (9, 2));
    });
}

/// What the program may do is the mapping's affair, and what the entry allows, the page's.
#[test]
fn no_call_gives_an_objects_page_the_right_to_write() {
    in_each(|vm, space| {
        let _object = map_both(vm, &space, 4);
        store(&space, SHARED, 1);
        let is_shown = |space: &Space<'_>| {
            let (pfn, rights) = leaf(space, PRIVATE).unwrap();
            pfn == leaf(space, SHARED).unwrap().0 && !rights.contains(Rights::WRITE)
        };
        assert_eq!(load(&space, PRIVATE), 1);
        for rights in [VmaFlags::READ, RW, NO_RIGHTS, RW] {
            space.protect(at(PRIVATE), 4 * PAGE, rights).unwrap();
            assert!(is_shown(&space));
        }
        assert_eq!(load(&space, PRIVATE), 1);
        assert!(is_shown(&space));
        space.protect(at(PRIVATE), 4 * PAGE, VmaFlags::READ).unwrap();
        assert_eq!(fault(&space, PRIVATE, Access::Write), Err(FaultError::NotAllowed));
        space.protect(at(PRIVATE), 4 * PAGE, RW).unwrap();
        store(&space, PRIVATE, 2);
        assert_eq!((load(&space, SHARED), copied(vm)), (1, 1));
    });
}

#[test]
fn a_fork_shares_the_copies_and_leaves_the_objects_pages_out() {
    in_each(|vm, space| {
        let _object = map_both(vm, &space, 4);
        (0..3).for_each(|page| store(&space, SHARED + page, 10));
        assert_eq!((load(&space, PRIVATE), load(&space, PRIVATE + 1)), (10, 10));
        store(&space, PRIVATE + 1, 20);
        let child = space.fork().unwrap();
        let entries = |space: &Space<'_>| (0..4).map(|page| leaf(space, PRIVATE + page)).collect::<Vec<_>>();
        let (here, there) = (entries(&space), entries(&child));
        assert_eq!(there, [None, here[1], None, None], "the copy is shared, and the object's page found");
        assert!(!here[1].unwrap().1.contains(Rights::WRITE));
        store(&space, PRIVATE + 1, 21);
        store(&space, SHARED, 11);
        assert_eq!([0, 1].map(|page| load(&child, PRIVATE + page)), [11, 20]);
        store(&child, PRIVATE, 30);
        store(&child, PRIVATE + 1, 31);
        assert_eq!([0, 1].map(|page| load(&space, PRIVATE + page)), [11, 21]);
        assert_eq!(load(&child, SHARED), 11);
        drop(space);
        assert_eq!([0, 1, 2].map(|page| load(&child, PRIVATE + page)), [30, 31, 10]);
    });
}

/// It holds nothing that the child could not find; and stores go on once the fork has returned.
#[test]
fn a_fork_passes_over_a_mapping_without_copies() {
    in_each(|vm, space| {
        let object = ObjectHandle::new(vm, 4 * PAGE).unwrap();
        map(&space, &object, (PRIVATE, 4), Sharing::Private);
        (0..4).for_each(|page| assert_eq!(load(&space, PRIVATE + page), 0));
        let tables = vm.totals().get(Counter::TableAlloc);
        let child = space.fork().unwrap();
        assert_eq!(vm.totals().get(Counter::TableAlloc), tables, "a table for nothing");
        for space in [&space, &child] {
            store(space, PRIVATE, 5);
            assert!(!space.inspect().vma_at(at(PRIVATE)).unwrap().anon.is_none());
        }
        // Both have copies now, so the next fork shares them.
        let grandchild = child.fork().unwrap();
        assert_eq!(leaf(&grandchild, PRIVATE).unwrap().0, leaf(&child, PRIVATE).unwrap().0);
    });
}

#[test]
fn an_observer_tells_copies_from_pages_of_the_object() {
    in_each(|vm, space| {
        let _object = map_both(vm, &space, 4);
        store(&space, SHARED, 1);
        store(&space, SHARED + 1, 1);
        store(&space, PRIVATE, 2);
        let resident = |page| space.inspect().resident_frame(at(page).vpn());
        let shown = |page| Some((leaf(&space, page).unwrap().0, true));
        assert_eq!(resident(PRIVATE), Some((leaf(&space, PRIVATE).unwrap().0, false)));
        assert_eq!(resident(PRIVATE + 1), shown(SHARED + 1), "no entry here shows it");
        assert_eq!((resident(PRIVATE + 2), resident(SHARED)), (None, shown(SHARED)));
        let mut pages = Vec::new();
        space.mincore(at(PRIVATE), 4 * PAGE, |_, is_resident| pages.push(is_resident)).unwrap();
        assert_eq!(pages, [true, true, false, false]);
    });
}

#[test]
fn a_copy_is_found_by_the_reverse_map() {
    in_each(|vm, space| {
        let _object = map_both(vm, &space, 4);
        store(&space, PRIVATE + 3, 1);
        let child = space.fork().unwrap();
        let found = |pfn: Pfn| {
            let (frame, mut pages) = (vm.memory().try_get(pfn).unwrap(), Vec::new());
            let hold = |id| [&space, &child].into_iter().find(|space| space.id() == id);
            let all = vm.rmap_walk(&frame, hold, |entry| {
                pages.push((entry.space().id(), entry.page()));
                ControlFlow::Continue(())
            });
            (all, pages)
        };
        let at = at(PRIVATE + 3).vpn();
        let due = std::vec![(space.id(), at), (child.id(), at)];
        assert_eq!(found(leaf(&space, PRIVATE + 3).unwrap().0), (Ok(RmapFound::All(2)), due));
        assert_eq!(load(&space, SHARED), 0);
        assert_eq!(found(leaf(&space, SHARED).unwrap().0).0, Err(RmapError::NotAnonymous));
    });
}

/// As mappings of a file are, by place in it.
#[test]
fn neighbours_are_joined_where_they_show_the_next_page() {
    in_each(|vm, space| {
        let object = ObjectHandle::new(vm, 8 * PAGE).unwrap();
        let map_at = |page, first| {
            let request = request(PRIVATE + page, 2, Sharing::Private);
            space.map(&request.backed_by(object.at_page(first))).unwrap();
        };
        map_at(0, 0);
        map_at(2, 2);
        assert_eq!(space.inspect().nr_mappings(), 1);
        map_at(4, 5);
        assert_eq!(space.inspect().nr_mappings(), 2, "it does not show page 4");
        let shared = request(PRIVATE + 6, 1, Sharing::Shared);
        space.map(&shared.backed_by(object.at_page(7))).unwrap();
        assert_eq!(space.inspect().nr_mappings(), 3, "its stores are the object's");
        store(&space, PRIVATE, 1);
        // Cut in two, each piece shows its pages, and has the copies.
        space.unmap(at(PRIVATE + 1), PAGE).unwrap();
        assert_eq!((load(&space, PRIVATE), space.inspect().vma_at(at(PRIVATE + 2)).unwrap().offset), (1, 2));
        map_at(0, 0);
        assert_eq!(space.inspect().nr_mappings(), 3);
        assert_eq!(load(&space, PRIVATE), 0);
    });
}
