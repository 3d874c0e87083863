//! Memory of the hugetlb pool: what is set aside, which space gets it, and that it all comes back.

mod copies;
mod cow;
mod edits;
mod fork;
mod giant;
mod mishaps;
mod pins;
mod progress;
mod random;
mod reserves;
mod shared;

use super::world::{PAGE, boot_map, space_of};
use crate::frame::HugetlbCounts;
use crate::machine::testing::TestMachine;
use crate::machine::{Entry, Leaf};
use crate::space::{
    AddressSpace, Counter, Error, Fault, FaultError, MapBacking, MapRequest, Outcome, Place, RmapError, Vm,
};
use crate::table::{Poison, SlotMarker, walk};
use crate::units::{Access, Level, PageSize, Pfn, Rights, VirtAddr, Vpn};
use crate::vma::VmaFlags;

type TestSpace<'v> = AddressSpace<'v, TestMachine>;
type TestVm<'m> = Vm<'m, TestMachine>;

/// Base pages in a huge one, and bytes.
const HUGE: u64 = PageSize::Huge.pages();
const BYTES: u64 = PageSize::Huge.bytes();
/// The first page of the arena.
const BASE: u64 = 8 * PageSize::Giant.pages();
/// The entry of a page that was taken back.
const TAKEN: Entry = SlotMarker::Poisoned(Poison::HugetlbUnmapped).entry();
const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

/// Runs the test with a pool of `pages` huge pages, on a machine that has few frames more. Afterwards all are
/// free, none is set aside, and the zones have them again once the pool is given up.
fn with_pool(pages: u64, test: impl FnOnce(&TestVm<'_>, TestSpace<'_>)) {
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
fn at(page: u64) -> VirtAddr {
    Vpn(BASE + page * HUGE).addr()
}

fn request(page: u64, pages: u64) -> MapRequest<'static> {
    MapRequest { place: Place::Fixed(at(page)), ..MapRequest::anonymous(pages * BYTES) }
}

fn try_map(space: &TestSpace<'_>, page: u64, pages: u64) -> Result<(), Error> {
    space.map(&request(page, pages).backed_by(MapBacking::Hugetlb(PageSize::Huge))).map(drop)
}

fn map(space: &TestSpace<'_>, page: u64, pages: u64) {
    try_map(space, page, pages).unwrap();
}

/// Maps pages for which nothing is set aside.
fn map_unreserved(space: &TestSpace<'_>, page: u64, pages: u64) {
    let request = MapRequest { flags: RW | VmaFlags::NORESERVE, ..request(page, pages) };
    space.map(&request.backed_by(MapBacking::Hugetlb(PageSize::Huge))).unwrap();
}

fn fault(space: &TestSpace<'_>, page: u64, access: Access) -> Result<Outcome, FaultError> {
    space.fault(Fault { addr: at(page), access })
}

/// The entry of a huge page of the arena.
fn entry(space: &TestSpace<'_>, page: u64) -> Entry {
    let reading = space.vm().read();
    let found = walk(space.inspect().page_table(), Vpn(BASE + page * HUGE), Level::Pte, &reading);
    assert_ne!(found.table.level(), Level::Pte, "a table lies below a page of the pool");
    found.entry()
}

fn leaf(space: &TestSpace<'_>, page: u64) -> Option<Leaf> {
    match entry(space, page) {
        Entry::Leaf(leaf) => Some(leaf),
        _ => None,
    }
}

/// Stores a byte at the start of a huge page, and in its last base page, as a program does.
fn store(space: &TestSpace<'_>, page: u64, byte: u8) {
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
fn peek(space: &TestSpace<'_>, page: u64) -> Option<u8> {
    let leaf = leaf(space, page)?;
    let mut bytes = [[0]; 2];
    space.vm().machine().read(leaf.pfn, 0, &mut bytes[0]);
    space.vm().machine().read(leaf.pfn.add(HUGE - 1), 7, &mut bytes[1]);
    assert_eq!(bytes[0], bytes[1], "the first and the last byte of huge page {page}");
    Some(bytes[0][0])
}

/// Mapcount, refcount and *exclusive* of the record of a page.
fn record(vm: &TestVm<'_>, pfn: Pfn) -> (u32, u32, bool) {
    let meta = vm.memory().meta(pfn).unwrap();
    (meta.mapcount(), meta.state().refcount(), meta.state().is_exclusive())
}

/// Takes a page back from the others of the spaces.
fn take_back(space: &TestSpace<'_>, page: u64, spaces: &[&TestSpace<'_>]) -> Result<bool, RmapError> {
    let known = |id| spaces.iter().copied().find(|space| space.id() == id);
    space.unmap_hugetlb_sharers(at(page), known)
}

/// Free huge pages, and those of them that are set aside. Recounts what the spaces' entries say.
fn counts(vm: &TestVm<'_>, spaces: &[&TestSpace<'_>], pages: u64) -> (u64, u64) {
    vm.memory().check().unwrap();
    let counts = vm.memory().hugetlb().counts(PageSize::Huge);
    let entries = || spaces.iter().flat_map(|space| (0..pages).map(|page| entry(space, page)));
    let reserved = entries().filter(|entry| *entry == SlotMarker::HugetlbReserved.entry()).count();
    assert_eq!(counts.reserved, reserved as u64, "set aside, and entries that say so");
    (counts.free, counts.reserved)
}
