//! The reverse map, where the embedder finds the wrong spaces.

use crate::space::RmapError;
use crate::space::tests::world::base::{frame, map, page, store, with_space};
use core::ops::ControlFlow;
use std::collections::BTreeSet;

/// The embedder says what keeps a space: where it is wrong, no entry is taken for that of another.
#[test]
fn a_space_that_was_not_asked_for_is_missing() {
    with_space(|vm, space| {
        map(&space, 0, 1);
        store(&space, page(0), 1);
        let child = space.fork().unwrap();
        let reference = vm.memory().try_get(frame(&space, page(0))).unwrap();
        let mut seen = BTreeSet::new();
        let found = vm.rmap_walk(
            &reference,
            |_| Some(&child),
            |entry| {
                seen.insert(entry.space().id());
                ControlFlow::Continue(())
            },
        );
        assert_eq!((found, seen), (Err(RmapError::SpaceMissing), BTreeSet::from([child.id()])));
    });
}
