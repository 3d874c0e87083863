//! Pages of 1 GiB: found among the free blocks of a node, mapped by one entry, given back.

use crate::frame::HugetlbCounts;
use crate::machine::testing::TestMachine;
use crate::space::tests::world::pins::{Limit, pfns, slots};
use crate::space::tests::world::pool::{
    BASE, BYTES, HUGE, TestSpace, TestVm, at, fault, leaf, record, take_back,
};
use crate::space::tests::world::{boot_map, space_of};
use crate::space::{Advice, Error, Fault, FaultError, MapBacking, MapRequest, Place, Sharing, Vm};
use crate::units::{Access, PageSize, Vpn};

const GIANT: u64 = PageSize::Giant.pages();

#[test]
fn a_giant_page_is_reserved_mapped_pinned_and_given_back() {
    // The machine's first frame lies at a quarter of a giant page.
    let machine = TestMachine::with_cpus(GIANT * 2, 2);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let before = vm.memory().check().unwrap().allocated;
    let counts = vm.resize_hugetlb(PageSize::Giant, 2);
    assert_eq!(counts, HugetlbCounts { total: 1, free: 1, ..HugetlbCounts::default() });
    vm.memory().check().unwrap();
    let space = space_of(&vm);
    let request = MapRequest { place: Place::Fixed(at(0)), ..MapRequest::anonymous(1) };
    space.map(&request.backed_by(MapBacking::Hugetlb(PageSize::Giant))).unwrap();
    assert_eq!(space.map(&request.backed_by(MapBacking::Hugetlb(PageSize::Giant))), Ok(at(0)), "over itself");
    assert_eq!(vm.memory().hugetlb().counts(PageSize::Giant).reserved, 1);
    assert_eq!(space.unmap(at(0), BYTES), Err(Error::Invalid));
    let last = Vpn(BASE + GIANT - 1).addr();
    space.fault(Fault { addr: last, access: Access::Write }).unwrap();
    let head = leaf(&space, 0).unwrap().pfn;
    assert!(head.0.is_multiple_of(GIANT));
    let limit = Limit::new(9);
    let pins = space.try_pin_fast(last, Access::Write, &limit, slots(1), &vm.read()).unwrap();
    assert_eq!(pfns(&pins), [head.add(GIANT - 1)]);
    // What is pinned is not shared, and the pool has no page for a copy of it.
    assert_eq!(space.fork().map(drop), Err(Error::NoMemory));
    drop((pins, space));
    vm.trim();
    assert_eq!(vm.memory().hugetlb().counts(PageSize::Giant), counts);
    assert_eq!(vm.resize_hugetlb(PageSize::Giant, 0), HugetlbCounts::default());
    vm.trim();
    assert_eq!(vm.memory().check().unwrap().allocated, before);
}

/// Two giant pages, wherever the machine's memory begins.
fn with_two_giant_pages(test: impl FnOnce(&TestVm<'_>, TestSpace<'_>)) {
    let machine = TestMachine::with_cpus(GIANT * 3 + HUGE, 2);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let two = HugetlbCounts { total: 2, free: 2, ..HugetlbCounts::default() };
    assert_eq!(vm.resize_hugetlb(PageSize::Giant, 2), two);
    test(&vm, space_of(&vm));
    vm.trim();
    assert_eq!(vm.memory().hugetlb().counts(PageSize::Giant), two);
    vm.memory().check().unwrap();
}

fn giant(sharing: Sharing) -> MapRequest<'static> {
    MapRequest { place: Place::Fixed(at(0)), sharing, ..MapRequest::anonymous(1) }
}

/// Free giant pages, and those of them that are set aside.
fn free(vm: &TestVm<'_>) -> (u64, u64) {
    vm.memory().check().unwrap();
    let counts = vm.memory().hugetlb().counts(PageSize::Giant);
    (counts.free, counts.reserved)
}

fn byte(space: &TestSpace<'_>, page: u64) -> Option<u8> {
    let mut byte = [0];
    space.copy_from(Vpn(BASE + page).addr(), &mut byte).ok().map(|_| byte[0])
}

#[test]
fn a_giant_page_is_shared_by_a_fork_copied_by_a_store_and_taken_back() {
    with_two_giant_pages(|vm, space| {
        space.map(&giant(Sharing::Private).backed_by(MapBacking::Hugetlb(PageSize::Giant))).unwrap();
        let last = GIANT - 1;
        assert_eq!(space.copy_to(Vpn(BASE + last).addr(), &[1]), Ok(1));
        let child = space.fork().unwrap();
        let grandchild = child.fork().unwrap();
        assert_eq!((free(vm), record(vm, leaf(&space, 0).unwrap().pfn)), ((1, 0), (3, 1, false)));
        fault(&child, 5, Access::Write).unwrap();
        assert_eq!(child.copy_to(Vpn(BASE + last).addr(), &[2]), Ok(1));
        assert_eq!([&space, &child, &grandchild].map(|one| byte(one, last)), [1, 2, 1].map(Some));
        assert_eq!((free(vm), byte(&child, 7)), ((0, 0), Some(0)));
        assert_eq!(fault(&space, 5, Access::Write), Err(FaultError::HugetlbEmpty));
        assert_eq!(take_back(&space, 5, &[&space, &child, &grandchild]), Ok(true));
        fault(&space, 5, Access::Write).unwrap();
        assert_eq!([&space, &child, &grandchild].map(|one| byte(one, last)), [Some(1), Some(2), None]);
    });
}

#[test]
fn a_giant_page_of_shared_memory_is_the_objects_whoever_maps_it() {
    with_two_giant_pages(|vm, space| {
        space.map(&giant(Sharing::Shared).backed_by(MapBacking::Hugetlb(PageSize::Giant))).unwrap();
        assert_eq!(free(vm), (2, 1));
        let child = space.fork().unwrap();
        let last = GIANT - 1;
        assert_eq!(child.copy_to(Vpn(BASE + last).addr(), &[3]), Ok(1));
        assert_eq!((free(vm), byte(&space, last), byte(&space, 0)), ((1, 0), Some(3), Some(0)));
        fault(&space, 9, Access::Write).unwrap();
        assert_eq!(leaf(&space, 0).unwrap().pfn, leaf(&child, 0).unwrap().pfn);
        assert_eq!(record(vm, leaf(&space, 0).unwrap().pfn), (2, 2, false), "two entries, and the object");
        // Only entries are dropped; a pin of a part keeps all of it.
        space.advise(at(0), PageSize::Giant.bytes(), Advice::DontNeed).unwrap();
        assert_eq!((free(vm), byte(&space, last)), ((1, 0), Some(3)));
        assert_eq!(space.unmap(at(0), BYTES), Err(Error::Invalid));
        let limit = Limit::new(9);
        let pins = space.pin_pages(Vpn(BASE + last).addr(), Access::Write, &limit, slots(1)).unwrap();
        drop((space, child));
        assert_eq!(free(vm), (1, 0));
        drop(pins);
        assert_eq!(free(vm), (2, 0));
    });
}
