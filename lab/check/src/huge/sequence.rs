//! Random calls on an arena of several huge pages, the library beside the model: answers, contents,
//! residency, huge leaves, what a child has, and a recount.

use super::HUGE;
use super::generate::huge_sequence;
use crate::drive::Driver;
use crate::huge_rules::HugeSetting;
use crate::library::{fill, huge_leaves, layout_of, map_lines, page_state};
use crate::model::Spaces;
use crate::recount::QuiescentSystem;
use crate::setting::{InheritedZeroPages, Setting};
use interleaf::machine::Format;
use interleaf::space::{AddressSpace, Counter, Path, Vm, VmOptions};
use interleaf::units::CpuId;
use interleaf::vma::{HugePolicy, MthpPolicies};
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};

/// Frames of the machine: all of the arena twice, for a child, and what goes beside.
const FRAMES: u64 = 12 * HUGE;
/// Calls of a sequence.
const CALLS: u64 = 40;

/// What sequences did with huge pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct SequenceCounts {
    /// Installed by faults.
    pub installed: u64,
    /// Split.
    pub split: u64,
    /// Folios allocated for a collapse.
    pub collapsed: u64,
    /// mTHP folios, installed by faults.
    pub folios: u64,
}

/// The library's setting of an experiment with huge pages.
#[must_use]
pub fn library_setting(policy: HugePolicy) -> Setting {
    Setting {
        memory_pages: 1 << 40,
        zero_pages: InheritedZeroPages::Everywhere,
        huge: HugeSetting::library(policy),
        ..Setting::default()
    }
}

/// Runs the sequence of the seed on the library, with faults that go `path`, this policy and these sizes
/// between, and on the model.
///
/// # Panics
/// Where they differ, or something does not add up.
pub fn run_sequence<F: Format>(
    seed: u64,
    path: Path,
    policy: HugePolicy,
    sizes: MthpPolicies,
) -> SequenceCounts {
    let mut setting = library_setting(policy);
    setting.huge = setting.huge.with_sizes(sizes);
    let machine = SoftMachine::<Host, F>::new(&MachineConfig::small(1, FRAMES)).expect("a machine");
    let _cpu = machine.enter(CpuId(0));
    let memory = boot_map(&machine).claim(&machine).expect("no other system has it");
    let options = VmOptions { huge_pages: policy, mthp: sizes, ..VmOptions::default() };
    let vm = Vm::start(memory, options).expect("memory");
    let before = vm.memory().check().expect("frames add up").allocated;
    {
        let space = AddressSpace::new(&vm, layout_of(&setting), path).expect("memory for a space");
        fill(&setting, &space);
        let _running = space.activate(None);
        let driver = Driver { machine: &machine, space: &space };
        let mut run = Run { setting: &setting, model: Spaces::new(&setting, 1), seed };
        for (nth, call) in huge_sequence(seed, CALLS, &setting).iter().enumerate() {
            let (ours, theirs) = (driver.call(call), run.model.call(0, call));
            assert_eq!(ours, theirs, "{call} of seed {seed}: the library, the model");
            if nth % 10 == 9 {
                run.compare(&space, 0);
                QuiescentSystem { machine: &machine, vm: &vm, spaces: &[&space], path }.must_hold();
            }
            if nth == 24 {
                let child = space.fork().expect("there is memory");
                let number = run.model.fork(0).expect("there is memory");
                run.compare(&child, number);
                run.compare(&space, 0);
                QuiescentSystem { machine: &machine, vm: &vm, spaces: &[&space, &child], path }.must_hold();
                drop(child);
                run.model.end(number);
            }
        }
        run.compare(&space, 0);
    }
    vm.trim();
    let after = vm.memory().check().expect("frames add up").allocated;
    assert_eq!(after, before, "frames handed out before and after seed {seed}");
    assert_eq!(machine.violations(), [], "the TLB saw the impossible with seed {seed}");
    let totals = vm.totals();
    assert_eq!(totals.get(Counter::NrAnonTransparentHugepages), 0, "huge pages left with seed {seed}");
    SequenceCounts {
        installed: totals.get(Counter::ThpFaultAlloc),
        split: totals.get(Counter::ThpSplitPmd),
        collapsed: totals.get(Counter::ThpCollapseAlloc),
        folios: MthpPolicies::orders().filter_map(Counter::anon_fault_alloc).map(|of| totals.get(of)).sum(),
    }
}

struct Run<'a> {
    setting: &'a Setting,
    model: Spaces,
    seed: u64,
}

impl Run<'_> {
    /// Every page of the arena is resident and holds what the model says; maps and huge leaves agree.
    fn compare<F: Format>(&self, space: &AddressSpace<'_, SoftMachine<Host, F>>, number: usize) {
        let (arena, seed) = (self.setting.huge_arena(), self.seed);
        for addr in arena.clone().step_by(super::PAGE as usize) {
            let (ours, theirs) = (page_state(space, addr), self.model.page(number, addr));
            assert_eq!(ours, theirs, "the page at {addr:#x}, seed {seed}");
        }
        let inside = |start| self.setting.windows.iter().any(|window| window.contains(&start));
        let map = map_lines(space, inside);
        assert_eq!(map, self.model.map(number), "seed {seed}");
        let leaves = huge_leaves(self.setting, space, &map);
        assert_eq!(leaves, self.model.huge_leaves(number), "seed {seed}");
    }
}
