//! Faults in private mappings of objects.

use crate::frame::Kind;
use crate::machine::testing::TestMachine;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::object::{
    PRIVATE, SHARED, at, copied, fault, in_each, leaf, load, map_both, on, store, vm_with,
};
use crate::space::*;
use crate::units::{Access, Rights, VirtAddr};
use crate::vma::{HugePolicy, SharedHugePolicy};

const HUGE: u64 = 512;

/// The shared mapping shows the folio by one leaf, the private one base pages of it.
#[test]
fn a_private_mapping_has_no_huge_page() {
    for path in [Path::Speculative, Path::Locked] {
        let machine = TestMachine::new(4000);
        let (huge_pages, shared_huge_pages) = (HugePolicy::Always, SharedHugePolicy::Always);
        let vm = vm_with(&machine, VmOptions { huge_pages, shared_huge_pages, ..VmOptions::default() });
        on(&vm, path, |vm, space| {
            let object = ObjectHandle::new(vm, HUGE * PAGE).unwrap();
            let fixed = |page, sharing| MapRequest {
                place: Place::Fixed(VirtAddr(page * PAGE)),
                sharing,
                ..MapRequest::anonymous(HUGE * PAGE)
            };
            let [first, second] = [8 * HUGE, 9 * HUGE];
            space.map(&fixed(first, Sharing::Shared).backed_by(object.at_page(0))).unwrap();
            space.map(&fixed(second, Sharing::Private).backed_by(object.at_page(0))).unwrap();
            let fault = |page: u64, access| space.fault(Fault { addr: VirtAddr(page * PAGE), access });
            fault(first, Access::Write).unwrap();
            assert_eq!(space.inspect().resident().shared_huge_pages, 1);
            fault(second + 3, Access::Read).unwrap();
            fault(second + 4, Access::Write).unwrap();
            let resident = space.inspect().resident();
            assert_eq!((resident.base_pages, resident.shared_huge_pages, resident.huge_pages), (2, 1, 0));
            assert_eq!(space.collapse(VirtAddr(second * PAGE), HUGE * PAGE), Err(Error::Invalid));
            let frame = |page| space.inspect().resident_frame(crate::units::Vpn(page)).unwrap();
            assert_eq!(frame(second + 3).0, frame(first + 3).0);
            assert_ne!(frame(second + 4).0, frame(first + 4).0);
        });
    }
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
