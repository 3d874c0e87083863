//! mprotect of private mappings of objects.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::object::{
    NO_RIGHTS, PRIVATE, RW, SHARED, Space, at, copied, fault, in_each, leaf, load, map_both, store,
};
use crate::space::*;
use crate::units::{Access, Rights};
use crate::vma::VmaFlags;

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
