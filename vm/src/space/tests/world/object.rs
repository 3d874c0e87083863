//! Mappings of objects, shared and private ones. Each test runs under both proofs.

use crate::machine::Entry;
use crate::machine::testing::{TestCpu, TestFormat, TestMachine};
use crate::space::tests::world::{PAGE, boot_map};
use crate::space::*;
use crate::table::walk;
use crate::units::{Access, Level, Pfn, Rights, VirtAddr};
use crate::vma::VmaFlags;

pub(in crate::space::tests) type Space<'v> = AddressSpace<'v, TestMachine>;
pub(in crate::space::tests) type TestVm<'m> = Vm<'m, TestMachine>;
pub(in crate::space::tests) type Object<'v> = ObjectHandle<'v, TestMachine>;
pub(in crate::space::tests) const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);
pub(in crate::space::tests) const NO_RIGHTS: VmaFlags = VmaFlags::empty();
/// Where tests map an object shared, and where private.
pub(in crate::space::tests) const SHARED: u64 = 0;
pub(in crate::space::tests) const PRIVATE: u64 = 64;

/// The address of a page of the arena.
pub(in crate::space::tests) fn at(page: u64) -> VirtAddr {
    VirtAddr((page + (1 << 12)) * PAGE)
}

/// Runs the test under both proofs, with an empty space. Afterwards as many frames are allocated as before.
pub(in crate::space::tests) fn in_each(test: impl Fn(&TestVm<'_>, Space<'_>)) {
    for path in [Path::Speculative, Path::Locked] {
        let machine = TestMachine::new(1500);
        let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
        on(&vm, path, &test);
    }
}

/// A system of this machine.
pub(in crate::space::tests) fn vm_with<'m>(
    machine: &'m TestMachine,
    options: VmOptions<'m, TestMachine>,
) -> TestVm<'m> {
    Vm::start(boot_map(machine).claim(machine).unwrap(), options).unwrap()
}

/// As [`in_each`], of a system.
pub(in crate::space::tests) fn on(vm: &TestVm<'_>, path: Path, test: impl Fn(&TestVm<'_>, Space<'_>)) {
    let allocated = || {
        vm.trim();
        vm.memory().check().unwrap().allocated
    };
    let before = allocated();
    test(vm, AddressSpace::new(vm, Layout::linux::<TestFormat>().overcommit(), path).unwrap());
    assert_eq!(allocated(), before, "frames allocated before and after");
}

pub(in crate::space::tests) fn request(page: u64, pages: u64, sharing: Sharing) -> MapRequest<'static> {
    MapRequest { place: Place::Fixed(at(page)), sharing, ..MapRequest::anonymous(pages * PAGE) }
}

/// Maps pages of the object from its first one on.
pub(in crate::space::tests) fn map(
    space: &Space<'_>,
    object: &Object<'_>,
    (page, pages): (u64, u64),
    sharing: Sharing,
) {
    space.map(&request(page, pages, sharing).backed_by(object.at_page(0))).unwrap();
}

/// A new object of so many pages, mapped shared and private.
pub(in crate::space::tests) fn map_both<'v>(vm: &'v TestVm<'_>, space: &Space<'_>, pages: u64) -> Object<'v> {
    let object = ObjectHandle::new(vm, pages * PAGE).unwrap();
    map(space, &object, (SHARED, pages), Sharing::Shared);
    map(space, &object, (PRIVATE, pages), Sharing::Private);
    object
}

pub(in crate::space::tests) fn fault(space: &Space<'_>, page: u64, access: Access) -> Result<(), FaultError> {
    space.fault(Fault { addr: at(page), access }).map(drop)
}

/// The frame that the page's entry maps, and its rights.
pub(in crate::space::tests) fn leaf(space: &Space<'_>, page: u64) -> Option<(Pfn, Rights)> {
    let reading = space.vm.rcu.read();
    match walk(&space.entries.table, at(page).vpn(), Level::Pte, &reading).entry() {
        Entry::Leaf(leaf) => Some((leaf.pfn, leaf.rights)),
        Entry::Absent => None,
        other => panic!("{other:?} was left at page {page}"),
    }
}

/// The byte that a program loads.
pub(in crate::space::tests) fn load(space: &Space<'_>, page: u64) -> u8 {
    fault(space, page, Access::Read).unwrap();
    let mut byte = [0];
    space.vm.machine().read(leaf(space, page).unwrap().0, 0, &mut byte);
    byte[0]
}

/// Stores a byte as a program does.
pub(in crate::space::tests) fn store(space: &Space<'_>, page: u64, byte: u8) {
    fault(space, page, Access::Write).unwrap();
    let (pfn, rights) = leaf(space, page).unwrap();
    assert!(rights.contains(Rights::WRITE), "page {page} after its fault");
    space.vm.machine().write(pfn, 0, &[byte]);
}

pub(in crate::space::tests) type Limit = MemlockLimit<TestCpu>;

pub(in crate::space::tests) fn copied(vm: &TestVm<'_>) -> u64 {
    vm.totals().get(Counter::CowCopied)
}
