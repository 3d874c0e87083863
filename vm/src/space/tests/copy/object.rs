//! Copies into mappings of objects and out of them, forced ones too.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::object::{
    NO_RIGHTS, PRIVATE, SHARED, at, fault, in_each, leaf, load, map_both, store,
};
use crate::space::*;
use crate::units::{Access, Rights, VirtAddr};
use crate::vma::VmaFlags;

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
