//! Objects by handles: made before a mapping, found behind one, kept when all mappings are gone.

use crate::machine::testing::TestMachine;
use crate::space::tests::world::{PAGE, boot_map, space_of, store};
use crate::space::{AddressSpace, Error, MapRequest, ObjectHandle, Place, Sharing, Vm};
use crate::units::{PageSize, Pfn, VirtAddr};
use crate::vma::VmaFlags;

type TestSpace<'v> = AddressSpace<'v, TestMachine>;
type TestVm<'m> = Vm<'m, TestMachine>;
const PAGES: u64 = 4;
const LEN: u64 = PAGES * PAGE;

/// Runs the test with two spaces. Afterwards, all frames are free again.
fn with_spaces(test: impl FnOnce(&TestVm<'_>, &TestSpace<'_>, &TestSpace<'_>)) {
    let machine = TestMachine::new(500);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    // What the pools take for the first objects and spaces, they keep.
    for _ in 0..2 {
        drop((space_of(&vm), ObjectHandle::new(&vm, LEN).unwrap()));
    }
    vm.trim();
    let before = vm.memory().check().unwrap();
    let (one, other) = (space_of(&vm), space_of(&vm));
    test(&vm, &one, &other);
    drop((one, other));
    vm.trim();
    assert_eq!(vm.memory().check().unwrap(), before);
}

fn shared(len_bytes: u64) -> MapRequest<'static> {
    MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(len_bytes) }
}

fn frame(space: &TestSpace<'_>, addr: VirtAddr, nr: u64) -> Option<Pfn> {
    space.inspect().resident_frame(page(addr, nr).vpn()).map(|(pfn, _)| pfn)
}

fn page(addr: VirtAddr, nr: u64) -> VirtAddr {
    VirtAddr(addr.0 + nr * PAGE)
}

#[test]
fn an_object_that_no_space_maps_yet_is_mapped_by_two() {
    with_spaces(|vm, one, other| {
        let object = ObjectHandle::new(vm, LEN - 1).unwrap();
        assert_eq!(object.len_bytes(), LEN);
        let here = one.map(&shared(LEN).backed_by(object.at_page(0))).unwrap();
        let there = other.map(&shared(2 * PAGE).backed_by(object.at_page(2))).unwrap();
        store(one, page(here, 3));
        assert!(frame(one, here, 3).is_some());
        assert_eq!(frame(other, there, 1), frame(one, here, 3), "the third page is the second there");
    });
}

#[test]
fn a_handle_keeps_the_contents_when_no_page_is_mapped_any_more() {
    with_spaces(|_, one, other| {
        let here = one.map(&shared(LEN)).unwrap();
        store(one, page(here, 1));
        let written = frame(one, here, 1);
        let (object, first) = one.object_at(page(here, 1)).unwrap();
        assert_eq!(first, 1);
        let more = object.clone();
        drop(object);
        one.unmap(here, LEN).unwrap();
        let there = other.map(&shared(PAGE).backed_by(more.at_page(first))).unwrap();
        assert_eq!(frame(other, there, 0), written);
        other.unmap(there, PAGE).unwrap();
        assert_eq!(more.len_bytes(), LEN, "it is there as long as a handle of it is");
    });
}

#[test]
fn handles_that_go_leave_the_object_to_its_mappings() {
    with_spaces(|_, one, _| {
        let here = one.map(&shared(PAGE)).unwrap();
        store(one, here);
        let written = frame(one, here, 0);
        for _ in 0..3 {
            let (object, _) = one.object_at(here).unwrap();
            drop((object.clone(), object));
        }
        assert!(written.is_some() && frame(one, here, 0) == written);
        let again = one.object_at(here).map(|(object, first)| (object.len_bytes(), first));
        assert_eq!(again, Some((PAGE, 0)));
    });
}

#[test]
fn no_object_is_found_where_memory_is_no_objects() {
    with_spaces(|vm, one, _| {
        assert!(one.object_at(VirtAddr(u64::MAX)).is_none());
        let private = one.map(&MapRequest::anonymous(PAGE)).unwrap();
        assert!(one.object_at(private).is_none());
        assert!(one.object_at(VirtAddr(0)).is_none());
        assert_eq!(vm.resize_hugetlb(PageSize::Huge, 0).total, 0);
    });
}

#[test]
fn pages_without_numbers_and_those_of_another_system_are_refused() {
    let machine = TestMachine::new(500);
    with_spaces(|vm, one, _| {
        let object = ObjectHandle::new(vm, LEN).unwrap();
        let map = |len, first| one.map(&shared(len).backed_by(object.at_page(first)));
        for (len, first) in [(LEN, u64::MAX - 1), (PAGE, u64::MAX), (0, 0)] {
            assert_eq!(map(len, first), Err(Error::Invalid), "{len} bytes from page {first} on");
        }
        assert_eq!(map(u64::MAX, 0), Err(Error::NoMemory));
        // Beyond the end as of a file: there is nothing, and it is mapped.
        for (len, first) in [(LEN + 1, 0), (LEN, 1), (PAGE, PAGES), (PAGE, PAGES - 1)] {
            assert!(map(len, first).is_ok(), "{len} bytes from page {first} on");
        }
        assert_eq!(ObjectHandle::new(vm, 0).map(drop), Err(Error::Invalid));
        assert_eq!(ObjectHandle::new(vm, (1 << 57) + 1).map(drop), Err(Error::NoMemory));
    });
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let object = ObjectHandle::new(&vm, LEN).unwrap();
    with_spaces(|_, one, _| {
        assert_eq!(one.map(&shared(PAGE).backed_by(object.at_page(0))), Err(Error::Invalid));
    });
}

#[test]
fn an_object_goes_over_what_is_mapped_and_keeps_its_own_flags() {
    with_spaces(|vm, one, _| {
        let here = one.map(&shared(LEN)).unwrap();
        let object = ObjectHandle::new(vm, LEN).unwrap();
        let place = Place::Fixed(page(here, 1));
        let request = MapRequest { place, flags: VmaFlags::READ, ..shared(PAGE) };
        assert_eq!(one.map(&request.backed_by(object.at_page(0))), Ok(page(here, 1)));
        let vma = one.inspect().vma_at(page(here, 1)).unwrap();
        assert!(!vma.flags.contains(VmaFlags::WRITE) && vma.flags.contains(VmaFlags::SHARED));
        assert_eq!(vma.backing.object(), Some(object.id()));
        assert_eq!(one.inspect().nr_mappings(), 3, "not joined with pages of another object");
    });
}

/// A view is found by its object, its space and its place: no two that differ in any of these stand in each
/// other's way, as programs map other objects at one address.
#[test]
fn spaces_map_objects_at_one_address_whatever_numbers_these_have() {
    with_spaces(|vm, one, other| {
        let more = [space_of(vm), space_of(vm), space_of(vm), space_of(vm)];
        let spaces: std::vec::Vec<_> = [one, other].into_iter().chain(&more).collect();
        let objects = [(); 16].map(|()| ObjectHandle::new(vm, LEN).unwrap());
        let request = MapRequest { place: Place::Fixed(VirtAddr(1 << 30)), ..shared(LEN) };
        for both in 0..64 {
            for space in &spaces {
                let number =
                    |object: &&ObjectHandle<'_, _>| object.id().number().get() ^ space.id().0 == both;
                if let Some(object) = objects.iter().find(number) {
                    space.map(&request.backed_by(object.at_page(0))).unwrap();
                }
            }
        }
    });
}
