//! Pages that lie wholly beyond the end of their object: they are mapped, and using them is a bus error.

use crate::machine::testing::{TestCpu, TestMachine};
use crate::space::tests::world::PAGE;
use crate::space::tests::world::object::{
    PRIVATE, SHARED, Space, TestVm, at, fault, in_each, leaf, map, on, request, vm_with,
};
use crate::space::*;
use crate::units::{Access, VirtAddr};
use crate::vma::VmaFlags;
use std::vec::Vec;

/// An object of two pages, of which four are mapped.
fn with_end(test: impl Fn(&TestVm<'_>, &Space<'_>, u64)) {
    for page in [SHARED, PRIVATE] {
        in_each(|vm, space| {
            let object = ObjectHandle::new(vm, 2 * PAGE).unwrap();
            let sharing = if page == SHARED { Sharing::Shared } else { Sharing::Private };
            map(&space, &object, (page, 4), sharing);
            test(vm, &space, page);
        });
    }
}

#[test]
fn an_access_beyond_the_end_of_an_object_is_a_bus_error() {
    with_end(|vm, space, page| {
        for access in [Access::Read, Access::Write] {
            assert_eq!(fault(space, page + 1, access), Ok(()));
            assert_eq!(fault(space, page + 2, access), Err(FaultError::Beyond));
            assert_eq!(fault(space, page + 3, access), Err(FaultError::Beyond));
        }
        assert_eq!(leaf(space, page + 2), None);
        let faults = if space.path == Path::Speculative { 4 } else { 0 };
        assert_eq!(vm.totals().get(Counter::SpfBeyond), faults);
        // Rights are asked first.
        space.protect(at(page), 4 * PAGE, VmaFlags::READ).unwrap();
        assert_eq!(fault(space, page + 2, Access::Write), Err(FaultError::NotAllowed));
    });
}

#[test]
fn calls_answer_beyond_the_end_as_linux_does() {
    with_end(|_, space, page| {
        let end = at(page + 2);
        let mut resident = Vec::new();
        assert_eq!(space.advise(at(page), 2 * PAGE, Advice::PopulateWrite), Ok(()));
        space.mincore(at(page), 4 * PAGE, |_, is_resident| resident.push(is_resident)).unwrap();
        assert_eq!(resident, [true, true, false, false]);
        assert_eq!(space.advise(at(page), 4 * PAGE, Advice::PopulateRead), Err(Error::Fault));
        assert_eq!(space.advise(at(page), 4 * PAGE, Advice::PopulateWrite), Err(Error::Fault));
        assert_eq!(space.advise(at(page), 4 * PAGE, Advice::DontNeed), Ok(()));
        let mut bytes = [0; 2];
        assert_eq!(space.copy_from(VirtAddr(end.0 - 1), &mut bytes), Ok(1));
        assert_eq!(space.copy_from(end, &mut bytes), Err(Error::Fault));
        assert_eq!(space.copy_to(VirtAddr(end.0 - 1), &[1, 2]), Ok(1));
        assert_eq!(space.copy_to(end, &[1]), Err(Error::Fault));
        assert_eq!(space.copy_to_forced(end, &[1]), Err(Error::Fault));
        let limit = MemlockLimit::<TestCpu>::new(9);
        let slots = |nr| (0..nr).map(|_| None).collect::<Vec<_>>();
        assert_eq!(space.pin_pages(at(page), Access::Write, &limit, slots(4)).unwrap().len(), 2);
        assert!(matches!(space.pin_pages(end, Access::Read, &limit, slots(1)), Err(Error::Fault)));
        assert!(matches!(space.pin_range(at(page), Access::Read, &limit, slots(4)), Err(Error::Fault)));
    });
}

/// A folio would have pages beyond it.
#[test]
fn the_last_pages_of_an_object_have_no_huge_page() {
    use crate::vma::SharedHugePolicy;
    const HUGE: u64 = 512;
    for path in [Path::Speculative, Path::Locked] {
        let machine = TestMachine::new(4000);
        let shared_huge_pages = SharedHugePolicy::Always;
        let vm = vm_with(&machine, VmOptions { shared_huge_pages, ..VmOptions::default() });
        on(&vm, path, |vm, space| {
            let object = ObjectHandle::new(vm, (2 * HUGE - 1) * PAGE).unwrap();
            let place = Place::Fixed(VirtAddr(8 * HUGE * PAGE));
            let request = MapRequest { place, ..request(0, 2 * HUGE, Sharing::Shared) };
            space.map(&request.backed_by(object.at_page(0))).unwrap();
            let fault = |page: u64| {
                let addr = VirtAddr((8 * HUGE + page) * PAGE);
                space.fault(Fault { addr, access: Access::Write }).map(drop)
            };
            assert_eq!(
                (fault(3), fault(HUGE + 3), fault(2 * HUGE - 1)),
                (Ok(()), Ok(()), Err(FaultError::Beyond))
            );
            let resident = space.inspect().resident();
            assert_eq!((resident.shared_huge_pages, resident.base_pages), (1, 1));
        });
    }
}
