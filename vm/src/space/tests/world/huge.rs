//! Spaces with transparent huge pages, of any policy and with mTHP folios.

use crate::machine::testing::TestMachine;
use crate::machine::{Entry, Leaf};
use crate::space::tests::world::{PAGE, boot_map, space_of};
use crate::space::{AddressSpace, Counter, Fault, MapRequest, Place, Vm, VmOptions};
use crate::table::walk;
use crate::units::{Access, Level, PageSize, Rights, VirtAddr, Vpn, VpnRange};
use crate::vma::{HugePolicy, MthpPolicies, ZeroPagePolicy};

pub(in crate::space::tests) type TestSpace<'v> = AddressSpace<'v, TestMachine>;
pub(in crate::space::tests) type TestVm<'m> = Vm<'m, TestMachine>;
pub(in crate::space::tests) const HUGE: u64 = PageSize::Huge.pages();
/// The first page of the arena.
pub(in crate::space::tests) const BASE: u64 = 8 * PageSize::Giant.pages();

/// Runs the test with a space on a machine of `frames` frames. Afterwards as many frames are allocated as
/// before, and no huge page is left.
pub(in crate::space::tests) fn with_frames(
    frames: u64,
    policy: HugePolicy,
    test: impl FnOnce(&TestVm<'_>, TestSpace<'_>),
) {
    with_policies(frames, (policy, ZeroPagePolicy::Small), test);
}

/// As [`with_frames`], with any policy for loads.
pub(in crate::space::tests) fn with_policies(
    frames: u64,
    (policy, zero): (HugePolicy, ZeroPagePolicy),
    test: impl FnOnce(&TestVm<'_>, TestSpace<'_>),
) {
    with_sizes_and_policies(frames, (policy, zero, MthpPolicies::NEVER), test);
}

/// As [`with_frames`], with mTHP folios.
pub(in crate::space::tests) fn with_sizes(
    frames: u64,
    (policy, sizes): (HugePolicy, MthpPolicies),
    test: impl FnOnce(&TestVm<'_>, TestSpace<'_>),
) {
    with_sizes_and_policies(frames, (policy, ZeroPagePolicy::Small, sizes), test);
}

pub(in crate::space::tests) fn with_sizes_and_policies(
    frames: u64,
    (policy, zero, sizes): (HugePolicy, ZeroPagePolicy, MthpPolicies),
    test: impl FnOnce(&TestVm<'_>, TestSpace<'_>),
) {
    let machine = TestMachine::with_cpus(frames, 2);
    let options = VmOptions { huge_pages: policy, zero_page: zero, mthp: sizes, ..VmOptions::default() };
    let vm = Vm::start(boot_map(&machine).claim(&machine).unwrap(), options).unwrap();
    let allocated = || {
        vm.trim();
        vm.memory().check().unwrap().allocated
    };
    let before = allocated();
    test(&vm, space_of(&vm));
    // The table of zeros stays.
    assert_eq!(
        allocated(),
        before + vm.memory().zero_pages().table_frames(),
        "frames allocated before and after"
    );
    assert_eq!(vm.totals().get(Counter::NrAnonTransparentHugepages), 0);
}

pub(in crate::space::tests) fn with_space(test: impl FnOnce(&TestVm<'_>, TestSpace<'_>)) {
    with_frames(8 * HUGE, HugePolicy::Always, test);
}

pub(in crate::space::tests) fn at(page: u64) -> VirtAddr {
    Vpn(BASE + page).addr()
}

pub(in crate::space::tests) fn map(space: &TestSpace<'_>, page: u64, pages: u64) {
    let request = MapRequest { place: Place::Fixed(at(page)), ..MapRequest::anonymous(pages * PAGE) };
    space.map(&request).unwrap();
}

pub(in crate::space::tests) fn fault(space: &TestSpace<'_>, page: u64, access: Access) {
    space.fault(Fault { addr: at(page), access }).unwrap();
}

/// The leaf that maps the page, and the pages that it covers.
pub(in crate::space::tests) fn leaf(space: &TestSpace<'_>, page: u64) -> Option<(Leaf, u64)> {
    let reading = space.vm().read();
    let found = walk(space.inspect().page_table(), Vpn(BASE + page), Level::Pte, &reading);
    match found.entry() {
        Entry::Leaf(leaf) => Some((leaf, found.table.level().entry_pages())),
        Entry::Absent => None,
        other => panic!("{other:?} was left at page {page:#x}"),
    }
}

pub(in crate::space::tests) fn is_huge(space: &TestSpace<'_>, page: u64) -> bool {
    leaf(space, page).is_some_and(|(_, covers)| covers == HUGE)
}

/// Stores a byte as a program does: a fault where the entry does not allow it.
pub(in crate::space::tests) fn store(space: &TestSpace<'_>, page: u64, byte: u8) {
    let may_write = |(leaf, _): (Leaf, u64)| leaf.rights.contains(Rights::WRITE);
    if !leaf(space, page).is_some_and(may_write) {
        fault(space, page, Access::Write);
    }
    assert!(leaf(space, page).is_some_and(may_write), "page {page} after its fault");
    let (pfn, _) = space.inspect().resident_frame(Vpn(BASE + page)).unwrap();
    space.vm().machine().write(pfn, 0, &[byte]);
}

/// The byte that the page holds; `None` where it is not resident.
pub(in crate::space::tests) fn peek(space: &TestSpace<'_>, page: u64) -> Option<u8> {
    let (pfn, _) = space.inspect().resident_frame(Vpn(BASE + page))?;
    let mut byte = [0];
    space.vm().machine().read(pfn, 0, &mut byte);
    Some(byte[0])
}

/// Number of resident pages of the arena's first pages.
pub(in crate::space::tests) fn resident(space: &TestSpace<'_>, pages: u64) -> u64 {
    (0..pages).filter(|&page| peek(space, page).is_some()).count() as u64
}

pub(in crate::space::tests) fn counted(vm: &TestVm<'_>, counters: [Counter; 4]) -> [u64; 4] {
    let totals = vm.totals();
    counters.map(|counter| totals.get(counter))
}

/// Installed, fallen back, split, and there now.
pub(in crate::space::tests) const THP: [Counter; 4] = [
    Counter::ThpFaultAlloc,
    Counter::ThpFaultFallback,
    Counter::ThpSplitPmd,
    Counter::NrAnonTransparentHugepages,
];

pub(in crate::space::tests) fn pages(start: u64, end: u64) -> VpnRange {
    VpnRange::new(Vpn(BASE + start), Vpn(BASE + end))
}

/// Two huge pages, each page of which holds its number.
pub(in crate::space::tests) fn filled(space: &TestSpace<'_>) {
    map(space, 0, 2 * HUGE);
    (0..2 * HUGE).for_each(|page| store(space, page, byte_of(page)));
    assert!(is_huge(space, 0) && is_huge(space, HUGE));
}

pub(in crate::space::tests) fn byte_of(page: u64) -> u8 {
    (page % 251) as u8
}

/// Every page of the two but those of `gone` holds its number.
pub(in crate::space::tests) fn assert_kept(space: &TestSpace<'_>, gone: core::ops::Range<u64>) {
    for page in 0..2 * HUGE {
        let expected = (!gone.contains(&page)).then(|| byte_of(page));
        assert_eq!(peek(space, page), expected, "page {page}");
    }
}
