//! fork of private mappings of objects.

use crate::frame::PinnedFrame;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::object::{
    Limit, PRIVATE, SHARED, Space, at, in_each, leaf, load, map, map_both, store,
};
use crate::space::*;
use crate::units::{Access, Rights};
use std::vec::Vec;

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
