//! munmap of mappings of objects.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::object::{PRIVATE, SHARED, at, in_each, load, map, map_both, store};
use crate::space::*;

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
