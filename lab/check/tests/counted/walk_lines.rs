//! Lines that walkers write, counted: of those that CPUs share, the entries that they mark and no other.

use interleaf::machine::AccessKind;
use interleaf::space::{AddressSpace, Fault, FrameRecord, Layout, MapRequest, Path, Place, Vm};
use interleaf::table::format::X86_64;
use interleaf::table::{NoteUse, walk};
use interleaf::units::{Access, CpuId, Level, PAGE_SIZE, PhysAddr, VirtAddr, VpnRange};
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use interleaf_lab::machine::watch::{Footprint, Watch, footprint};
use std::ops::Range;

type Machine = SoftMachine<Watch, X86_64>;
type Space<'v> = AddressSpace<'v, Machine>;

const PAGES: u64 = 64;
const PAGE: u64 = PAGE_SIZE as u64;
const BASE: VirtAddr = VirtAddr(1 << 40);

/// Runs the test in a space that this CPU runs, whose pages were written.
fn with_pages(test: impl FnOnce(&Vm<'_, Machine>, &Space<'_>)) {
    let machine = Machine::new(&MachineConfig::small(1, 4096)).expect("memory for the machine");
    let _cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory for the records");
    let space = Space::new(&vm, Layout::linux::<X86_64>(), Path::Speculative).expect("memory for a space");
    let running = space.activate(None);
    let request = MapRequest { place: Place::Fixed(BASE), ..MapRequest::anonymous(PAGES * PAGE) };
    space.map(&request).expect("room");
    for nr in 0..PAGES {
        let addr = VirtAddr(BASE.0 + nr * PAGE);
        space.fault(Fault { addr, access: Access::Write }).expect("mapped");
    }
    test(&vm, &space);
    drop(running);
}

fn pages() -> VpnRange {
    VpnRange::new(BASE.vpn(), BASE.vpn().add(PAGES))
}

/// The entries of the pages.
fn entries(vm: &Vm<'_, Machine>, space: &Space<'_>) -> Range<usize> {
    let reading = vm.read();
    let table = walk(space.inspect().page_table(), BASE.vpn(), Level::Pte, &reading).table.pfn();
    let at = interleaf::machine::Machine::window(vm.machine(), PhysAddr(table.addr().0)).addr().get();
    at..at + PAGES as usize * size_of::<u64>()
}

/// Addresses that were written, without what is this CPU's own.
fn shared_writes(vm: &Vm<'_, Machine>, seen: &Footprint) -> Vec<usize> {
    let mut own = Vec::new();
    vm.each_part(|name, range| {
        if name.starts_with("a CPU's") {
            own.push(range);
        }
    });
    let is_write = |kind| matches!(kind, AccessKind::Store | AccessKind::Update | AccessKind::Write);
    let writes = seen.uses().filter(|used| is_write(used.kind)).map(|used| used.addr);
    writes.filter(|at| !own.iter().any(|own| own.contains(at))).collect()
}

#[test]
fn translations_searches_and_call_chains_write_nothing_that_is_shared() {
    with_pages(|vm, space| {
        let ((), seen) = footprint(|| {
            let section = vm.read_in_handler();
            for nr in 0..PAGES {
                let addr = VirtAddr(BASE.0 + nr * PAGE);
                let led = space.walker().translate_in_handler(addr, &section).expect("it is there");
                let found = space.walker().find_frame_in_handler(led.pfn, pages(), 1000, &section);
                assert_eq!(found.page, Some(addr.vpn()));
                assert_eq!(space.walker().read_word_in_handler(addr, &section), Ok(0));
                assert_eq!(space.walker().call_chain(addr, FrameRecord::X86_64, 9, &section).count(), 0);
            }
            drop(section);
            let reading = vm.read();
            // All bits are set.
            let led = space.walker().translate_access(BASE, Access::Write, NoteUse::AsHardware, &reading);
            assert!(led.is_ok());
        });
        assert_eq!(shared_writes(vm, &seen), [0; 0]);
        let updates = seen.uses().filter(|used| used.kind == AccessKind::Update).count();
        assert_eq!(updates, 0, "walks execute no read-modify-write");
    });
}

#[test]
fn a_scan_writes_each_entry_whose_bit_it_clears_once_and_nothing_else() {
    with_pages(|vm, space| {
        let entries = entries(vm, space);
        let reading = vm.read();
        let (scan, seen) = footprint(|| space.walker().scan_accessed(pages(), &reading, |_, _| ()));
        assert_eq!(scan.accessed, PAGES);
        let writes = shared_writes(vm, &seen);
        assert!(writes.iter().all(|at| entries.contains(at)), "lines of others: {writes:x?}");
        let updates: u64 =
            seen.uses().filter(|used| used.kind == AccessKind::Update).map(|used| used.count).sum();
        assert_eq!(updates, PAGES, "one compare-exchange for each");
        let (scan, seen) = footprint(|| space.walker().scan_accessed(pages(), &reading, |_, _| ()));
        assert_eq!((scan.leaves, scan.accessed), (PAGES, 0));
        assert_eq!(shared_writes(vm, &seen), [0; 0], "a scan of idle pages writes nothing");
    });
}
