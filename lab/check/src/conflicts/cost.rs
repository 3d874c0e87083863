//! What a fault costs, counted: read-modify-writes, and lines written, by name.

use interleaf::machine::AccessKind;
use interleaf::space::{AddressSpace, Fault, Layout, MapRequest, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, VirtAddr};
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use interleaf_lab::machine::watch::{Footprint, Names, Watch, footprint};
use std::collections::BTreeMap;

/// What some faults did, all together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Faults.
    pub faults: u64,
    /// Atomic read-modify-writes.
    pub updates: u64,
    /// Atomic read-modify-writes, by name.
    pub updates_by_name: BTreeMap<String, u64>,
    /// Stores and read-modify-writes, by name.
    pub writes_by_name: BTreeMap<String, u64>,
    /// Lines written at least once, by name.
    pub lines_by_name: BTreeMap<String, u64>,
}

/// The cost of write faults on untouched pages, one after another on one CPU, cache refills included.
///
/// # Panics
/// Where the host has no memory for the machine.
#[must_use]
pub fn of_faults(path: Path, faults: u64) -> Cost {
    type Machine = SoftMachine<Watch, X86_64>;
    let machine =
        Machine::new(&MachineConfig::small(1, faults + faults / 128 + 4096)).expect("memory for the machine");
    let _cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory for the records");
    let space = AddressSpace::new(&vm, Layout::linux::<X86_64>(), path).expect("memory for a space");
    let _running = space.activate(None);
    let page = PAGE_SIZE as u64;
    let start = space.map(&MapRequest::anonymous((faults + 1) * page)).expect("room");
    let touch = |n: u64| {
        let addr = VirtAddr(start.0 + n * page);
        space.fault(Fault { addr, access: Access::Write }).expect("mapped");
    };
    // The first fault of a mapping gives it its identity.
    touch(0);
    let ((), seen) = footprint(|| (1..=faults).for_each(touch));
    Cost::of(faults, &seen, &Names::of_now(&machine, &vm, &[&space]))
}

impl Cost {
    fn of(faults: u64, seen: &Footprint, names: &Names) -> Self {
        let mut cost = Self { faults, updates: seen.total(AccessKind::Update), ..Self::default() };
        let mut lines = BTreeMap::new();
        for used in seen.uses().filter(|used| used.kind.writes()) {
            let name = names.of(used.addr, used.place);
            if used.kind == AccessKind::Update {
                *cost.updates_by_name.entry(name.clone()).or_insert(0) += used.count;
            }
            *cost.writes_by_name.entry(name.clone()).or_insert(0) += used.count;
            lines.insert(used.addr / interleaf::units::CACHE_LINE, name);
        }
        for name in lines.into_values() {
            *cost.lines_by_name.entry(name).or_insert(0) += 1;
        }
        cost
    }
}
