//! Lines that a pin without a lock writes, counted: those of the frames' counts, and no other that is shared.

use interleaf::frame::PinnedFrame;
use interleaf::machine::AccessKind;
use interleaf::space::{AddressSpace, Fault, Layout, MapRequest, MemlockLimit, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, Pfn, VirtAddr};
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use interleaf_lab::machine::watch::{Footprint, Watch, footprint};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

type Machine = SoftMachine<Watch, X86_64>;

const PAGES: u64 = 64;
const PAGE: u64 = PAGE_SIZE as u64;
const LINE: usize = 64;

/// Writes by kind of access, outside of the records of `frames`, of the limit, and of what is this CPU's own.
fn others(vm: &Vm<'_, Machine>, limit: &Range<usize>, frames: &[Pfn], seen: &Footprint) -> Vec<usize> {
    let record = |pfn: &Pfn| std::ptr::from_ref(vm.memory().meta(*pfn).expect("a frame")).addr() / LINE;
    let records: BTreeSet<usize> = frames.iter().map(record).collect();
    let mut own = Vec::new();
    vm.each_part(|name, range| {
        if name.starts_with("a CPU's") {
            own.push(range);
        }
    });
    let is_known = |at: usize| {
        records.contains(&(at / LINE)) || limit.contains(&at) || own.iter().any(|own| own.contains(&at))
    };
    let writes = seen.uses().filter(|used| is_write(used.kind));
    writes.map(|used| used.addr).filter(|&at| !is_known(at)).collect()
}

/// Whether it changes the line; fences have none.
fn is_write(kind: AccessKind) -> bool {
    matches!(kind, AccessKind::Store | AccessKind::Update | AccessKind::Write)
}

/// Read-modify-writes by address.
fn updates(seen: &Footprint) -> BTreeMap<usize, u64> {
    let updates = seen.uses().filter(|used| used.kind == AccessKind::Update);
    updates.fold(BTreeMap::new(), |mut sum, used| {
        *sum.entry(used.addr).or_default() += used.count;
        sum
    })
}

#[test]
fn a_fast_pin_writes_the_lines_of_the_frames_counts_and_no_other_that_is_shared() {
    let machine = Machine::new(&MachineConfig::small(1, 4096)).expect("memory for the machine");
    let _cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory for the records");
    let space =
        AddressSpace::new(&vm, Layout::linux::<X86_64>(), Path::Speculative).expect("memory for a space");
    let _running = space.activate(None);
    let base = space.map(&MapRequest::anonymous(PAGES * PAGE)).expect("room");
    for nr in 0..PAGES {
        let addr = VirtAddr(base.0 + nr * PAGE);
        space.fault(Fault { addr, access: Access::Write }).expect("mapped");
    }
    let limit = MemlockLimit::<<Machine as interleaf::machine::Machine>::Cpu>::new(u64::MAX);
    let limit_start = std::ptr::from_ref(&limit).addr();
    let limit_at = limit_start..limit_start + size_of_val(&limit);
    let mut slots: [Option<PinnedFrame<'_, Machine>>; PAGES as usize] = [const { None }; PAGES as usize];
    let reading = vm.read();
    let (pins, pinning) = footprint(|| {
        space.try_pin_fast(base, Access::Write, &limit, &mut slots[..], &reading).expect("all are there")
    });
    drop(reading);
    let frames: Vec<Pfn> = pins.frames().map(PinnedFrame::pfn).collect();
    assert_eq!(frames.len() as u64, PAGES);
    let ((), unpinning) = footprint(|| drop(pins));
    for (what, seen) in [("pin", &pinning), ("unpin", &unpinning)] {
        let others = others(&vm, &limit_at, &frames, seen);
        assert!(others.is_empty(), "lines of others, {what}: {others:x?}");
        let nr_updates: u64 = updates(seen).values().sum();
        assert_eq!(nr_updates, PAGES + 1, "one for each frame and one of the limit, {what}");
    }
}
