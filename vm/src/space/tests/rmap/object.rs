//! The reverse map of copies of an object's pages.

use crate::space::tests::world::object::{PRIVATE, SHARED, at, in_each, leaf, load, map_both, store};
use crate::space::*;
use crate::units::Pfn;
use core::ops::ControlFlow;
use std::vec::Vec;

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
