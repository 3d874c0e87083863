//! Memory of the hugetlb pool: afterwards all of its pages are free, and none is set aside.

use crate::frame::HugetlbCounts;
use crate::machine::testing::{TestFormat, TestMachine};
use crate::machine::{Entry, Leaf};
use crate::object::SharedHugetlbCounts;
use crate::space::tests::world::{PAGE, boot_map, space_of};
use crate::space::{
    AddressSpace, Counter, Error, Fault, FaultError, Layout, MapBacking, MapRequest, Outcome, Path, Place,
    RmapError, Sharing, Vm,
};
use crate::table::{Poison, SlotMarker, walk};
use crate::units::{Access, Level, PageSize, Pfn, Rights, VirtAddr, Vpn};
use crate::vma::{Backing, VmaFlags};

pub(in crate::space::tests) type TestSpace<'v> = AddressSpace<'v, TestMachine>;
pub(in crate::space::tests) type TestVm<'m> = Vm<'m, TestMachine>;
/// Base pages in a huge one, and bytes.
pub(in crate::space::tests) const HUGE: u64 = PageSize::Huge.pages();
pub(in crate::space::tests) const BYTES: u64 = PageSize::Huge.bytes();
/// The first page of the arena.
pub(in crate::space::tests) const BASE: u64 = 8 * PageSize::Giant.pages();
/// The entry of a page that was taken back.
pub(in crate::space::tests) const TAKEN: Entry = SlotMarker::Poisoned(Poison::HugetlbUnmapped).entry();
pub(in crate::space::tests) const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

/// Runs the test with a pool of `pages` huge pages, on a machine that has few frames more. Afterwards all are
/// free, none is set aside, and the zones have them again once the pool is given up.
pub(in crate::space::tests) fn with_pool(pages: u64, test: impl FnOnce(&TestVm<'_>, TestSpace<'_>)) {
    let machine = TestMachine::with_cpus((pages + 3) * HUGE, 2);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let allocated = || {
        vm.trim();
        vm.memory().check().unwrap().allocated
    };
    let before = allocated();
    let all_free = HugetlbCounts { total: pages, free: pages, reserved: 0, surplus: 0 };
    assert_eq!(vm.resize_hugetlb(PageSize::Huge, pages), all_free);
    test(&vm, space_of(&vm));
    allocated();
    assert_eq!(vm.memory().hugetlb().counts(PageSize::Huge), all_free);
    assert_eq!(vm.resize_hugetlb(PageSize::Huge, 0), HugetlbCounts::default());
    assert_eq!(allocated(), before, "frames allocated before and after");
    assert_eq!(vm.totals().get(Counter::NrAnonTransparentHugepages), 0);
}

/// The address of a huge page of the arena.
pub(in crate::space::tests) fn at(page: u64) -> VirtAddr {
    Vpn(BASE + page * HUGE).addr()
}

pub(in crate::space::tests) fn request(page: u64, pages: u64) -> MapRequest<'static> {
    MapRequest { place: Place::Fixed(at(page)), ..MapRequest::anonymous(pages * BYTES) }
}

pub(in crate::space::tests) fn try_map(space: &TestSpace<'_>, page: u64, pages: u64) -> Result<(), Error> {
    space.map(&request(page, pages).backed_by(MapBacking::Hugetlb(PageSize::Huge))).map(drop)
}

pub(in crate::space::tests) fn map(space: &TestSpace<'_>, page: u64, pages: u64) {
    try_map(space, page, pages).unwrap();
}

/// Maps pages for which nothing is set aside.
pub(in crate::space::tests) fn map_unreserved(space: &TestSpace<'_>, page: u64, pages: u64) {
    let request = MapRequest { flags: RW | VmaFlags::NORESERVE, ..request(page, pages) };
    space.map(&request.backed_by(MapBacking::Hugetlb(PageSize::Huge))).unwrap();
}

pub(in crate::space::tests) fn fault(
    space: &TestSpace<'_>,
    page: u64,
    access: Access,
) -> Result<Outcome, FaultError> {
    space.fault(Fault { addr: at(page), access })
}

/// The entry of a huge page of the arena.
pub(in crate::space::tests) fn entry(space: &TestSpace<'_>, page: u64) -> Entry {
    let reading = space.vm().read();
    let found = walk(space.inspect().page_table(), Vpn(BASE + page * HUGE), Level::Pte, &reading);
    assert_ne!(found.table.level(), Level::Pte, "a table lies below a page of the pool");
    found.entry()
}

pub(in crate::space::tests) fn leaf(space: &TestSpace<'_>, page: u64) -> Option<Leaf> {
    match entry(space, page) {
        Entry::Leaf(leaf) => Some(leaf),
        _ => None,
    }
}

/// Stores a byte at the start of a huge page, and in its last base page, as a program does.
pub(in crate::space::tests) fn store(space: &TestSpace<'_>, page: u64, byte: u8) {
    let may_write = |leaf: Leaf| leaf.rights.contains(Rights::WRITE);
    if !leaf(space, page).is_some_and(may_write) {
        fault(space, page, Access::Write).unwrap();
    }
    let leaf = leaf(space, page).filter(|leaf| may_write(*leaf)).expect("a page after its fault");
    let machine = space.vm().machine();
    machine.write(leaf.pfn, 0, &[byte]);
    machine.write(leaf.pfn.add(HUGE - 1), 7, &[byte]);
}

/// The byte that the page holds, in both places; `None` where it is not present.
pub(in crate::space::tests) fn peek(space: &TestSpace<'_>, page: u64) -> Option<u8> {
    let leaf = leaf(space, page)?;
    let mut bytes = [[0]; 2];
    space.vm().machine().read(leaf.pfn, 0, &mut bytes[0]);
    space.vm().machine().read(leaf.pfn.add(HUGE - 1), 7, &mut bytes[1]);
    assert_eq!(bytes[0], bytes[1], "the first and the last byte of huge page {page}");
    Some(bytes[0][0])
}

/// Mapcount, refcount and *exclusive* of the record of a page.
pub(in crate::space::tests) fn record(vm: &TestVm<'_>, pfn: Pfn) -> (u32, u32, bool) {
    let meta = vm.memory().meta(pfn).unwrap();
    (meta.mapcount(), meta.state().refcount(), meta.state().is_exclusive())
}

/// Takes a page back from the others of the spaces.
pub(in crate::space::tests) fn take_back(
    space: &TestSpace<'_>,
    page: u64,
    spaces: &[&TestSpace<'_>],
) -> Result<bool, RmapError> {
    let known = |id| spaces.iter().copied().find(|space| space.id() == id);
    space.unmap_hugetlb_sharers(at(page), known)
}

/// Free huge pages, and those of them that are set aside. Recounts what the spaces' entries say.
pub(in crate::space::tests) fn counts(vm: &TestVm<'_>, spaces: &[&TestSpace<'_>], pages: u64) -> (u64, u64) {
    vm.memory().check().unwrap();
    let counts = vm.memory().hugetlb().counts(PageSize::Huge);
    let entries = || spaces.iter().flat_map(|space| (0..pages).map(|page| entry(space, page)));
    let reserved = entries().filter(|entry| *entry == SlotMarker::HugetlbReserved.entry()).count();
    assert_eq!(counts.reserved, reserved as u64, "set aside, and entries that say so");
    (counts.free, counts.reserved)
}

/// Runs the test with a space of each path, which has mapped the first pages.
pub(in crate::space::tests) fn with_paths(pool: u64, pages: u64, test: impl Fn(&TestVm<'_>, TestSpace<'_>)) {
    for path in Path::ALL {
        with_pool(pool, |vm, space| {
            drop(space);
            let space = AddressSpace::new(vm, Layout::linux::<TestFormat>(), path).unwrap();
            map(&space, 0, pages);
            (0..pages).for_each(|page| store(&space, page, page as u8 + 1));
            test(vm, space);
        });
    }
}

pub(in crate::space::tests) fn pfn(space: &TestSpace<'_>, page: u64) -> Pfn {
    leaf(space, page).unwrap().pfn
}

pub(in crate::space::tests) fn inside(page: u64) -> VirtAddr {
    VirtAddr(at(page).0 + PAGE)
}

/// The base pages of a huge page around its middle.
pub(in crate::space::tests) const MIDDLE: u64 = HUGE / 2;

pub(in crate::space::tests) fn middle(page: u64) -> VirtAddr {
    Vpn(BASE + page * HUGE + MIDDLE).addr()
}

pub(in crate::space::tests) fn shared(page: u64, pages: u64) -> MapRequest<'static> {
    MapRequest { sharing: Sharing::Shared, ..request(page, pages) }
}

pub(in crate::space::tests) fn try_map_shared(
    space: &TestSpace<'_>,
    page: u64,
    pages: u64,
) -> Result<(), Error> {
    space.map(&shared(page, pages).backed_by(MapBacking::Hugetlb(PageSize::Huge))).map(drop)
}

pub(in crate::space::tests) fn map_shared(space: &TestSpace<'_>, page: u64, pages: u64) {
    try_map_shared(space, page, pages).unwrap();
}

pub(in crate::space::tests) fn backing(space: &TestSpace<'_>, page: u64) -> Option<Backing> {
    let mut found = None;
    space.inspect().each_vma(|vma| {
        if vma.range.contains(Vpn(BASE + page * HUGE)) {
            found = Some(vma.backing.get());
        }
    });
    found
}

/// What the object of a page has, and what is set aside for it.
pub(in crate::space::tests) fn object(space: &TestSpace<'_>, page: u64) -> (u64, u64) {
    let found = backing(space, page).and_then(|backing| space.vm().shared_hugetlb(backing));
    let SharedHugetlbCounts { filled, reserved } = found.expect("shared memory of the pool");
    (filled, reserved)
}

/// Free huge pages, and those of them that are set aside, by the pool's own counts.
pub(in crate::space::tests) fn free(vm: &TestVm<'_>) -> (u64, u64) {
    vm.memory().check().unwrap();
    let counts = vm.memory().hugetlb().counts(PageSize::Huge);
    (counts.free, counts.reserved)
}
