//! What an observer sees of private mappings of objects.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::object::{PRIVATE, SHARED, at, in_each, leaf, map_both, store};
use std::vec::Vec;

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
