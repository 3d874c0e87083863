//! Read-modify-writes of fork, reuse and copy on the records of the frames, counted.

use interleaf::machine::AccessKind;
use interleaf::space::{AddressSpace, Fault, Layout, MapRequest, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, Pfn, VirtAddr};
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use interleaf_lab::machine::watch::{Footprint, Watch, footprint};
use std::collections::BTreeSet;

type Machine = SoftMachine<Watch, X86_64>;
type Space<'v> = AddressSpace<'v, Machine>;

/// Pages, of several tables.
const PAGES: u64 = 1200;
const PAGE: u64 = PAGE_SIZE as u64;

fn addr(base: VirtAddr, nr: u64) -> VirtAddr {
    VirtAddr(base.0 + nr * PAGE)
}

fn write(space: &Space<'_>, base: VirtAddr) {
    for nr in 0..PAGES {
        space.fault(Fault { addr: addr(base, nr), access: Access::Write }).expect("mapped");
    }
}

fn frames(space: &Space<'_>, base: VirtAddr) -> Vec<Pfn> {
    (0..PAGES).map(|nr| space.inspect().resident_frame(addr(base, nr).vpn()).expect("written").0).collect()
}

/// Read-modify-writes on the records of the frames, for each frame.
fn updates(vm: &Vm<'_, Machine>, frames: &[Pfn], seen: &Footprint) -> f64 {
    let record = |pfn: &Pfn| std::ptr::from_ref(vm.memory().meta(*pfn).expect("a frame")).addr();
    let records: BTreeSet<usize> = frames.iter().map(record).collect();
    let is_of_one = |at: usize| records.range(..=at).next_back().is_some_and(|start| at < start + 32);
    let updates = seen.uses().filter(|used| used.kind == AccessKind::Update && is_of_one(used.addr));
    updates.map(|used| used.count).sum::<u64>() as f64 / frames.len() as f64
}

/// Counts for each page, with a machine of its own.
#[test]
fn a_forked_page_a_reuse_and_a_copy_take_one_read_modify_write_of_the_record_each() {
    let machine = Machine::new(&MachineConfig::small(1, 4 * PAGES + 4096)).expect("memory for the machine");
    let _cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory for the records");
    let space = Space::new(&vm, Layout::linux::<X86_64>(), Path::Speculative).expect("memory for a space");
    let _running = space.activate(None);
    let base = space.map(&MapRequest::anonymous(PAGES * PAGE)).expect("room");
    write(&space, base);
    let shared = frames(&space, base);
    let (child, seen) = footprint(|| space.fork().expect("memory for tables"));
    assert_eq!(updates(&vm, &shared, &seen), 1.0, "a forked page");
    let ((), seen) = footprint(|| write(&space, base));
    assert_eq!(updates(&vm, &shared, &seen), 1.0, "a copy, on the frame that is copied");
    // What a fault that takes no copy does: nothing more, of the frame that it gets.
    let copies = frames(&space, base);
    assert!(copies.iter().zip(&shared).all(|(copy, old)| copy != old));
    assert_eq!(updates(&vm, &copies, &seen), 0.0, "a copy, on the new frame");
    let ((), seen) = footprint(|| write(&child, base));
    assert_eq!(frames(&child, base), shared, "nothing is copied");
    assert_eq!(updates(&vm, &shared, &seen), 1.0, "a reuse");
}
