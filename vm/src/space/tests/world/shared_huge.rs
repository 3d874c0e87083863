//! Shared memory with huge pages: the object has the folio, spaces map it whole or by base pages. Each test
//! runs under both proofs and in three formats.

use crate::frame::{BootMap, Init, Kind, Region, RegionKind};
use crate::machine::testing::TestMachine;
use crate::machine::{Entry, Format, Leaf};
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{BASE, HUGE, at};
use crate::space::{AddressSpace, Counter, Fault, Layout, MapRequest, Path, Place, Sharing, Vm, VmOptions};
use crate::table::walk;
use crate::units::{Access, Level, NodeId, Order, Pfn, Rights, Vpn};
use crate::vma::{SharedHugePolicy, VmaFlags};
use std::collections::BTreeMap;

pub(in crate::space::tests) type Space<'v, F> = AddressSpace<'v, TestMachine<F>>;
/// The pages that tests map at most, in each space.
pub(in crate::space::tests) const ARENA: u64 = 5 * HUGE;
pub(in crate::space::tests) const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

/// Runs a test, a generic function, under both proofs and in each format, on a machine of so many frames.
macro_rules! in_each {
    ($frames:expr, $policy:ident, $test:ident) => {
        $crate::space::tests::world::shared_huge::run::<$crate::machine::testing::TestFormat>(
            $frames,
            $crate::vma::SharedHugePolicy::$policy,
            $crate::space::Path::Speculative,
            $test,
        );
        $crate::space::tests::world::shared_huge::run::<$crate::table::format::X86_64>(
            $frames,
            $crate::vma::SharedHugePolicy::$policy,
            $crate::space::Path::Locked,
            $test,
        );
        $crate::space::tests::world::shared_huge::run::<$crate::table::format::Aarch64>(
            $frames,
            $crate::vma::SharedHugePolicy::$policy,
            $crate::space::Path::Speculative,
            $test,
        );
    };
}
pub(in crate::space::tests) use in_each;

/// Afterwards as many frames are allocated as before, and no huge leaf is left.
pub(in crate::space::tests) fn run<F: Format>(
    frames: u64,
    policy: SharedHugePolicy,
    path: Path,
    test: impl FnOnce(&Vm<'_, TestMachine<F>>, Space<'_, F>),
) {
    let machine = TestMachine::<F>::of_format(frames, 2);
    let frames = machine.frames();
    let kind = RegionKind::Usable(Init::Dirty);
    let (start, len_bytes) = (frames.start.addr(), frames.len() * PAGE);
    let map = BootMap::new(&[Region { start, len_bytes, kind, node: NodeId(0) }]).unwrap();
    let options = VmOptions { shared_huge_pages: policy, ..VmOptions::default() };
    let vm = Vm::start(map.claim(&machine).unwrap(), options).unwrap();
    let allocated = || {
        vm.trim();
        vm.memory().check().unwrap().allocated
    };
    let before = allocated();
    test(&vm, AddressSpace::new(&vm, Layout::linux::<F>().overcommit(), path).unwrap());
    assert_eq!(allocated(), before, "frames allocated before and after");
    assert_eq!(vm.totals().get(Counter::NrShmemPmdMapped), 0);
    assert_eq!(vm.totals().get(Counter::NrAnonTransparentHugepages), 0);
}

pub(in crate::space::tests) fn request(page: u64, pages: u64) -> MapRequest<'static> {
    let sharing = Sharing::Shared;
    MapRequest { place: Place::Fixed(at(page)), sharing, ..MapRequest::anonymous(pages * PAGE) }
}

pub(in crate::space::tests) fn map<F: Format>(space: &Space<'_, F>, page: u64, pages: u64) {
    space.map(&request(page, pages)).unwrap();
}

/// Maps in `space`, from `to` on, what `other` has from `from` on.
pub(in crate::space::tests) fn map_same<F: Format>(
    space: &Space<'_, F>,
    to: u64,
    other: &Space<'_, F>,
    from: u64,
    pages: u64,
) {
    let (object, first) = other.object_at(at(from)).unwrap();
    space.map(&request(to, pages).backed_by(object.at_page(first))).unwrap();
}

pub(in crate::space::tests) fn fault<F: Format>(space: &Space<'_, F>, page: u64, access: Access) {
    space.fault(Fault { addr: at(page), access }).unwrap();
}

/// The leaf that maps the page, and the pages that it covers.
pub(in crate::space::tests) fn leaf<F: Format>(space: &Space<'_, F>, page: u64) -> Option<(Leaf, u64)> {
    let reading = space.vm().read();
    let found = walk(space.inspect().page_table(), Vpn(BASE + page), Level::Pte, &reading);
    match found.entry() {
        Entry::Leaf(leaf) => Some((leaf, found.table.level().entry_pages())),
        Entry::Absent => None,
        other => panic!("{other:?} was left at page {page:#x}"),
    }
}

pub(in crate::space::tests) fn is_huge<F: Format>(space: &Space<'_, F>, page: u64) -> bool {
    leaf(space, page).is_some_and(|(_, covers)| covers == HUGE)
}

pub(in crate::space::tests) fn is_base<F: Format>(space: &Space<'_, F>, page: u64) -> bool {
    leaf(space, page).is_some_and(|(_, covers)| covers == 1)
}

/// The frame that the entry of a page leads to.
pub(in crate::space::tests) fn shown<F: Format>(space: &Space<'_, F>, page: u64) -> Option<Pfn> {
    leaf(space, page).map(|(leaf, covers)| leaf.pfn.add((BASE + page) % covers))
}

/// Stores a byte as a program does: a fault where the entry does not allow it.
pub(in crate::space::tests) fn store<F: Format>(space: &Space<'_, F>, page: u64, byte: u8) {
    let may_write = |(leaf, _): (Leaf, u64)| leaf.rights.contains(Rights::WRITE);
    if !leaf(space, page).is_some_and(may_write) {
        fault(space, page, Access::Write);
    }
    assert!(leaf(space, page).is_some_and(may_write), "page {page} after its fault");
    space.vm().machine().write(shown(space, page).unwrap(), 0, &[byte]);
}

/// Loads a byte as a program does.
pub(in crate::space::tests) fn load<F: Format>(space: &Space<'_, F>, page: u64) -> u8 {
    let may_read = |(leaf, _): (Leaf, u64)| leaf.rights.contains(Rights::READ);
    if !leaf(space, page).is_some_and(may_read) {
        fault(space, page, Access::Read);
    }
    let mut byte = [0];
    space.vm().machine().read(shown(space, page).expect("present after its fault"), 0, &mut byte);
    byte[0]
}

pub(in crate::space::tests) fn counted<F: Format>(
    vm: &Vm<'_, TestMachine<F>>,
    counters: [Counter; 4],
) -> [u64; 4] {
    let totals = vm.totals();
    counters.map(|counter| totals.get(counter))
}

/// Given to the object, fallen back, mapped by a huge leaf, and mapped so now.
pub(in crate::space::tests) const THP: [Counter; 4] =
    [Counter::ThpFileAlloc, Counter::ThpFileFallback, Counter::ThpFileMapped, Counter::NrShmemPmdMapped];

/// Recounts the frames of objects: each has as many entries as it counts, one reference of its object, and
/// one of all entries together. Returns how many frames objects have.
pub(in crate::space::tests) fn recount<F: Format>(
    vm: &Vm<'_, TestMachine<F>>,
    spaces: &[&Space<'_, F>],
) -> u64 {
    vm.memory().check().unwrap();
    let (mut entries, mut huge) = (BTreeMap::new(), 0);
    for space in spaces {
        let mut page = 0;
        while page < ARENA {
            let Some((leaf, covers)) = leaf(space, page) else {
                page += 1;
                continue;
            };
            let state = vm.memory().meta(leaf.pfn).unwrap().state();
            assert_eq!(state.kind(), Kind::Object, "page {page} shows {state:?}");
            let counted = if state.order() == Order::BASE { covers } else { 1 };
            assert!(covers == HUGE || state.order() == Order::BASE, "a base page of {state:?}");
            (0..counted).for_each(|part| *entries.entry(leaf.pfn.add(part)).or_insert(0) += 1);
            huge += u64::from(covers == HUGE);
            page += covers;
        }
    }
    assert_eq!(vm.totals().get(Counter::NrShmemPmdMapped), huge);
    let (span, mut frames) = (vm.memory().span(), 0);
    for pfn in (span.start.0..span.end.0).map(Pfn) {
        let Some(meta) = vm.memory().meta(pfn) else { continue };
        let state = meta.state();
        if state.kind() == Kind::Object {
            let mapped: u32 = entries.get(&pfn).copied().unwrap_or(0);
            let due = (mapped, 1 + u32::from(mapped > 0));
            assert_eq!((meta.mapcount(), state.refcount()), due, "counts of {pfn:?}, {state:?}");
            frames += state.order().frames();
        }
    }
    frames
}

/// Two spaces that map a huge page by one leaf each, with a byte in each page.
pub(in crate::space::tests) fn shared<'v, F: Format>(space: &Space<'v, F>) -> Space<'v, F> {
    map(space, 0, 2 * HUGE);
    (0..2 * HUGE).for_each(|page| store(space, page, page as u8));
    let child = space.fork().unwrap();
    assert_eq!((load(&child, 0), load(&child, HUGE)), (0, 0));
    assert!([0, HUGE].iter().all(|&page| is_huge(space, page) && is_huge(&child, page)));
    child
}
