//! Seals: what they forbid, with Linux's errors, and what they leave.

use crate::object::Seals;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::object::{
    Object, PRIVATE, RW, SHARED, Space, TestVm, at, in_each, load, map, map_both, request, store,
};
use crate::space::*;
use crate::vma::VmaFlags;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn seal(object: &Object<'_>, seals: Seals, spaces: &[&Space<'_>]) -> Result<(), Error> {
    object.add_seals(seals, |id| spaces.iter().copied().find(|space| space.id() == id))
}

fn new<'v>(vm: &'v TestVm<'_>) -> Object<'v> {
    ObjectHandle::new(vm, 4 * PAGE).unwrap()
}

fn set_len(object: &Object<'_>, space: &Space<'_>, pages: u64) -> Result<(), Error> {
    object.set_len_bytes(pages * PAGE, |_| Some(space)).map(drop)
}

#[test]
fn a_length_is_sealed_against_either_direction() {
    in_each(|vm, space| {
        let object = new(vm);
        seal(&object, Seals::SHRINK, &[&space]).unwrap();
        assert_eq!(set_len(&object, &space, 3), Err(Error::NotPermitted));
        assert_eq!((set_len(&object, &space, 4), set_len(&object, &space, 5)), (Ok(()), Ok(())));
        seal(&object, Seals::GROW, &[&space]).unwrap();
        assert_eq!(object.seals(), Seals::SHRINK | Seals::GROW);
        assert_eq!(set_len(&object, &space, 6), Err(Error::NotPermitted));
        assert_eq!(object.write_at(5 * PAGE, &[1]), Err(ObjectError::Sealed));
        // What lies before the end is written.
        assert_eq!(object.write_at(5 * PAGE - 1, &[1, 2]), Ok(1));
        assert_eq!(object.len_bytes(), 5 * PAGE);
    });
}

#[test]
fn an_object_is_sealed_against_writing_once_no_mapping_may_write_it() {
    in_each(|vm, space| {
        let object = map_both(vm, &space, 4);
        store(&space, SHARED, 1);
        assert_eq!(seal(&object, Seals::WRITE, &[&space]), Err(Error::Busy));
        // A mapping that may become writable is one, too.
        space.protect(at(SHARED), 4 * PAGE, VmaFlags::READ).unwrap();
        assert_eq!(seal(&object, Seals::WRITE, &[&space]), Err(Error::Busy));
        assert_eq!((object.seals(), object.write_at(0, &[1])), (Seals::empty(), Ok(1)));
        space.unmap(at(SHARED), 4 * PAGE).unwrap();
        assert_eq!(seal(&object, Seals::WRITE, &[]), Err(Error::Busy), "a space that is not found");
        assert_eq!(seal(&object, Seals::WRITE | Seals::SEAL, &[&space]), Ok(()));
        assert_eq!(object.write_at(0, &[2]), Err(ObjectError::Sealed));
        assert_eq!(object.punch_hole(0, PAGE, |_| Some(&space)), Err(Error::NotPermitted));
        assert_eq!(seal(&object, Seals::GROW, &[&space]), Err(Error::NotPermitted));
        // Copies are the mapping's own; a mapping to read is one for good.
        store(&space, PRIVATE, 3);
        let writable = request(SHARED, 4, Sharing::Shared).backed_by(object.at_page(0));
        assert_eq!(space.map(&writable), Err(Error::NotPermitted));
        space.map(&MapRequest { flags: VmaFlags::READ, ..writable }).unwrap();
        assert_eq!(load(&space, SHARED), 1);
        assert_eq!(space.protect(at(SHARED), PAGE, RW), Err(Error::Access));
        assert_eq!(space.remove(at(SHARED), PAGE, |_| Some(&space)), Err(Error::Access));
    });
}

#[test]
fn a_seal_against_future_writing_leaves_the_mappings_that_are_there() {
    in_each(|vm, space| {
        let object = map_both(vm, &space, 4);
        seal(&object, Seals::FUTURE_WRITE, &[]).unwrap();
        store(&space, SHARED, 4);
        let mut byte = [0];
        assert_eq!((object.read_at(0, &mut byte), byte), (Ok(1), [4]));
        assert_eq!(object.write_at(0, &[1]), Err(ObjectError::Sealed));
        assert_eq!(space.remove(at(SHARED), PAGE, |_| Some(&space)), Err(Error::NotPermitted));
        let more = request(40, 4, Sharing::Shared).backed_by(object.at_page(0));
        assert_eq!(space.map(&more), Err(Error::NotPermitted));
        map(&space, &object, (80, 4), Sharing::Private);
        assert_eq!(seal(&object, Seals::from_bits_retain(1 << 20), &[&space]), Err(Error::Invalid));
    });
}

/// A seal that the first call may take back is none for the second, and a panic takes it back too.
#[test]
fn a_seal_beside_one_that_is_refused_is_refused_for_itself() {
    in_each(|vm, space| {
        let object = map_both(vm, &space, 4);
        let more = request(40, 1, Sharing::Shared).backed_by(object.at_page(0));
        let inner = Cell::new(None);
        let outer = object.add_seals(Seals::WRITE, |_| {
            inner.set(Some((seal(&object, Seals::WRITE, &[&space]), object.seals(), space.map(&more))));
            Some(&space)
        });
        let is_busy = Err(Error::Busy);
        assert_eq!(outer, is_busy);
        assert_eq!(inner.take(), Some((is_busy, Seals::empty(), Err(Error::NotPermitted))));
        let unwinds = catch_unwind(AssertUnwindSafe(|| {
            object.add_seals(Seals::WRITE, |_| -> Option<&Space<'_>> { panic!("no spaces are known") })
        }));
        assert!(unwinds.is_err());
        space.map(&more).unwrap();
        // A seal against seals that comes meanwhile.
        space.unmap(at(SHARED), 4 * PAGE).unwrap();
        space.unmap(at(40), PAGE).unwrap();
        let late = object.add_seals(Seals::WRITE, |_| {
            seal(&object, Seals::SEAL, &[]).unwrap();
            Some(&space)
        });
        assert_eq!((late, object.seals()), (Err(Error::NotPermitted), Seals::SEAL));
        space.map(&more).unwrap();
    });
}
