//! Blocks of 64 KiB and more on AArch64: a TLB holds one translation for 16 pages, and each edit of one of
//! them makes them single pages first.

use interleaf::machine::{CONTIGUOUS_LEAVES, Entry, Format};
use interleaf::space::{
    AddressSpace, Advice, Counter, Fault, Layout, MapRequest, MemlockLimit, Path, Place, Vm,
};
use interleaf::table::format::{Aarch64, X86_64};
use interleaf::table::walk;
use interleaf::units::{Access, CpuId, Level, Order, PAGE_SIZE, VirtAddr, Vpn, VpnRange};
use interleaf::vma::{HugeSizes, SizePolicy, VmaFlags};
use interleaf_check::drive::Faults;
use interleaf_check::recount::QuiescentSystem;
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};

type Machine<F> = SoftMachine<Host, F>;
type Space<'v, F> = AddressSpace<'v, Machine<F>>;

const PAGE: u64 = PAGE_SIZE as u64;
const GROUP: u64 = CONTIGUOUS_LEAVES as u64;
const BASE: Vpn = Vpn(1 << 20);
/// Four groups.
const PAGES: u64 = 4 * GROUP;

fn at(page: u64) -> VirtAddr {
    BASE.add(page).addr()
}

/// Runs the test in a space that this CPU runs, with memory of four groups, of which each page holds its
/// number; then counts everything.
fn with_groups<F: Format>(order: u8, test: impl FnOnce(&Machine<F>, &Vm<'_, Machine<F>>, &Space<'_, F>)) {
    let machine = Machine::<F>::new(&MachineConfig::small(1, 4096)).expect("memory for the machine");
    let _cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory for the records");
    let vm = vm.with_huge_sizes(HugeSizes::NEVER.with(Order(order), SizePolicy::Always));
    let path = Path::Speculative;
    let space = Space::new(&vm, Layout::linux::<F>(), path).expect("memory for a space");
    let running = space.activate(None);
    space
        .map(&MapRequest { place: Place::Fixed(at(0)), ..MapRequest::anonymous(PAGES * PAGE) })
        .expect("room");
    (0..PAGES).for_each(|page| write(&machine, &space, page, page));
    test(&machine, &vm, &space);
    QuiescentSystem { machine: &machine, vm: &vm, spaces: &[&space], path }.must_hold();
    drop(running);
    drop(space);
    assert_eq!(machine.violations(), []);
}

fn write<F: Format>(machine: &Machine<F>, space: &Space<'_, F>, page: u64, value: u64) {
    machine.write_u64(at(page), value, &Faults::new(space)).expect("it is mapped");
}

fn read<F: Format>(machine: &Machine<F>, space: &Space<'_, F>, page: u64) -> Option<u64> {
    machine.read_u64(at(page), &Faults::new(space)).ok()
}

/// The groups whose leaves are contiguous: of each, all or none.
fn groups<F: Format>(space: &Space<'_, F>) -> Vec<bool> {
    let reading = space.vm().read();
    let is_contiguous = |page| {
        let entry = walk(space.page_table(), BASE.add(page), Level::Pte, &reading);
        entry.table.level() == Level::Pte && F::is_contiguous(entry.word)
    };
    let of_group = |nr: u64| {
        let leaves: Vec<bool> = (nr * GROUP..(nr + 1) * GROUP).map(is_contiguous).collect();
        assert!(leaves.iter().all(|leaf| *leaf == leaves[0]), "a part of group {nr}: {leaves:?}");
        leaves[0]
    };
    (0..PAGES / GROUP).map(of_group).collect()
}

/// The sizes of the translations that the TLB holds.
fn held<F: Format>(machine: &Machine<F>) -> Vec<u64> {
    let mut sizes = Vec::new();
    machine.inspect(CpuId(0), |page| sizes.push(page.pages), |_, _| ()).expect("this thread is on the CPU");
    sizes.sort_unstable();
    sizes
}

#[test]
fn a_tlb_holds_one_translation_for_sixteen_pages() {
    with_groups::<Aarch64>(4, |machine, _, space| {
        assert_eq!(groups(space), [true; 4]);
        assert_eq!(held(machine), [GROUP; 4]);
        assert!((0..PAGES).all(|page| read(machine, space, page) == Some(page)));
    });
    with_groups::<Aarch64>(6, |machine, _, space| {
        assert_eq!((groups(space), held(machine)), (vec![true; 4], vec![GROUP; 4]), "a block of four groups");
    });
    with_groups::<Aarch64>(3, |machine, _, space| {
        assert_eq!((groups(space), held(machine).len()), (vec![false; 4], 64), "too small a block");
    });
    with_groups::<X86_64>(4, |machine, _, space| {
        assert_eq!(
            (groups(space), held(machine).len()),
            (vec![false; 4], 64),
            "the format has no such leaves"
        );
    });
}

/// An edit of pages 20 to 39 leaves the first and the last group contiguous, by one flush more than it takes
/// itself.
fn edit(of: impl FnOnce(&Space<'_, Aarch64>, VirtAddr, u64), left: impl Fn(u64) -> Option<u64>) {
    with_groups::<Aarch64>(4, |machine, vm, space| {
        let before = vm.totals().get(Counter::TlbFlush);
        of(space, at(20), 20 * PAGE);
        assert_eq!(vm.totals().get(Counter::TlbFlush) - before, 2, "one for all groups, and the edit's");
        assert_eq!(groups(space), [true, false, false, true]);
        let expected = |page| if (20..40).contains(&page) { left(page) } else { Some(page) };
        (0..PAGES).for_each(|page| assert_eq!(read(machine, space, page), expected(page), "page {page}"));
    });
}

#[test]
fn an_edit_of_a_part_makes_single_pages_of_the_groups_that_it_cuts() {
    edit(|space, start, bytes| space.unmap(start, bytes).expect("mapped"), |_| None);
    edit(|space, start, bytes| space.advise(start, bytes, Advice::DontNeed).expect("mapped"), |_| Some(0));
    edit(|space, start, bytes| space.protect(start, bytes, VmaFlags::READ).expect("mapped"), Some);
    edit(|space, start, bytes| space.advise(start, bytes, Advice::Free).expect("mapped"), Some);
}

#[test]
fn a_page_that_lost_its_right_to_write_has_lost_it_in_the_tlb() {
    with_groups::<Aarch64>(4, |machine, _, space| {
        space.protect(at(5), PAGE, VmaFlags::READ).expect("mapped");
        let stored = machine.write_u64(at(5), 1, &Faults::new(space));
        assert!(stored.is_err(), "written through the translation of its group");
        write(machine, space, 6, 66);
        assert_eq!((read(machine, space, 5), read(machine, space, 6)), (Some(5), Some(66)));
    });
}

#[test]
fn a_fork_shares_single_pages_and_what_each_writes_the_other_does_not_see() {
    with_groups::<Aarch64>(4, |machine, vm, space| {
        let child = space.fork().expect("memory");
        assert_eq!(groups(space), [false; 4]);
        write(machine, space, 3, 33);
        assert_eq!(groups(&child), [false; 4]);
        let held = |page| {
            let mut bytes = [0; 8];
            machine.read(child.resident_frame(BASE.add(page)).expect("resident").0, 0, &mut bytes);
            u64::from_ne_bytes(bytes)
        };
        assert_eq!((held(3), held(4)), (3, 4));
        child.fault(Fault { addr: at(4), access: Access::Write }).expect("it is mapped");
        assert_eq!(vm.totals().get(Counter::CowCopied), 2);
        write(machine, space, 4, 44);
        assert_eq!((read(machine, space, 3), read(machine, space, 4), held(4)), (Some(33), Some(44), 4));
    });
}

#[test]
fn a_scan_finds_all_pages_of_a_group_used_where_one_was() {
    with_groups::<Aarch64>(4, |machine, _, space| {
        let all = VpnRange::new(BASE, BASE.add(PAGES));
        let scan = |pages| space.scan_accessed_and_flush(pages, |_, leaf| assert!(leaf.accessed)).accessed;
        assert_eq!((scan(all), scan(all)), (PAGES, 0));
        assert_eq!(groups(space), [true; 4], "a scan is no edit");
        read(machine, space, 37);
        assert_eq!((scan(all), scan(all)), (GROUP, 0));
        // A part of the group tells of all, and clears all.
        read(machine, space, 37);
        let part = VpnRange::new(BASE.add(32), BASE.add(36));
        assert_eq!((scan(part), scan(all)), (4, 0));
    });
}

#[test]
fn a_leaf_made_single_was_used_if_any_of_its_group_was() {
    with_groups::<Aarch64>(4, |machine, _, space| {
        let all = VpnRange::new(BASE, BASE.add(PAGES));
        space.scan_accessed_and_flush(all, |_, _| ());
        read(machine, space, 1);
        space.protect(at(8), PAGE, VmaFlags::READ).expect("mapped");
        let reading = space.vm().read();
        for page in 0..GROUP {
            let Entry::Leaf(leaf) = walk(space.page_table(), BASE.add(page), Level::Pte, &reading).entry()
            else {
                panic!("page {page} is not resident")
            };
            assert!(leaf.accessed && leaf.dirty, "page {page}: {leaf:?}");
        }
    });
}

#[test]
fn a_pin_of_a_page_leaves_its_group_contiguous() {
    with_groups::<Aarch64>(4, |_, vm, space| {
        let frame = space.resident_frame(BASE.add(17)).expect("resident").0;
        let limit = MemlockLimit::new(u64::MAX);
        let mut slots = [const { None }; 1];
        let pins = space.pin_range(at(17), Access::Write, &limit, &mut slots);
        assert_eq!(vm.memory().meta(frame).expect("memory").pincount(), 1);
        assert_eq!(groups(space), [true; 4]);
        drop(pins);
    });
}
