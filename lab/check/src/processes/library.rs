//! The library as a system of processes, on one CPU of the software machine.

use super::{ForkAdvice, MemoryState, ProcessStep, ProcessSystem, StepOutcome, StepResult};
use crate::calls::{Call, CallResult, PAGE};
use crate::disk::Disk;
use crate::drive::Driver;
use crate::drive_file::FileWorld;
use crate::library::{File, Library, fill, huge_leaves, layout_of, map_lines, page_state};
use crate::recount::QuiescentSystem;
use crate::setting::Setting;
use interleaf::machine::Format;
use interleaf::space::{AddressSpace, Path, Vm};
use interleaf::units::CpuId;
use interleaf::vma::VmaFlags;
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::SoftMachine;
use interleaf_lab::os::child::MOST_PROCESSES;

type Machine<F> = SoftMachine<Host, F>;
type Space<'v, F> = AddressSpace<'v, Machine<F>>;

/// The spaces of processes that live, by number.
struct Family<'a, 'v, F: Format> {
    machine: &'a Machine<F>,
    vm: &'v Vm<'v, Machine<F>>,
    setting: &'a Setting,
    path: Path,
    file: File<'v, F>,
    disk: Option<&'a Disk>,
    spaces: [Option<Space<'v, F>>; MOST_PROCESSES],
}

impl<'v, F: Format> Family<'_, 'v, F> {
    /// Takes the steps from the first on that the same process takes, while the CPU runs its space. Returns
    /// what came of them, at least of one.
    fn turn(&mut self, steps: &[ProcessStep]) -> Vec<StepOutcome> {
        let process = steps[0].process();
        let Some(space) = self.spaces[process].take() else {
            return vec![self.look(StepResult::Skipped, None)];
        };
        let turn = |step: &&ProcessStep| step.process() == process;
        let mut outcomes = Vec::new();
        let mut ends = false;
        {
            let running = space.activate(None);
            for step in steps.iter().take_while(turn) {
                let lives = |number: usize| number == process || self.spaces[number].is_some();
                let result = match *step {
                    _ if !step.is_possible(lives) => StepResult::Skipped,
                    ProcessStep::Call { call, .. } => StepResult::Answer(self.call(&space, &call)),
                    ProcessStep::Fork { child, .. } => {
                        let forked = space.fork().map(|space| self.spaces[child] = Some(space));
                        self.recount(&space);
                        StepResult::Forked(forked.map_err(Into::into))
                    }
                    ProcessStep::End { .. } => {
                        ends = true;
                        break;
                    }
                };
                outcomes.push(self.look(result, Some((process, &space))));
            }
            drop(running);
        }
        if ends {
            drop(space);
            outcomes.push(self.look(StepResult::Ended, None));
        } else {
            self.spaces[process] = Some(space);
        }
        outcomes
    }

    /// What is seen of all spaces, that of the process that runs among them.
    /// Calls `f` with the file, and all spaces.
    fn with_file<R>(&self, running: &Space<'v, F>, f: impl FnOnce(&FileWorld<'_, 'v, Host, F>) -> R) -> R {
        let spaces: Vec<_> = self.spaces.iter().flatten().chain([running]).collect();
        f(&FileWorld { file: &self.file, disk: self.disk, spaces: &spaces })
    }

    fn call(&self, running: &Space<'v, F>, call: &Call) -> CallResult {
        let driver = Driver { machine: self.machine, space: running };
        self.with_file(running, |world| driver.call_with_file(call, world))
    }

    fn look(&self, result: StepResult, running: Option<(usize, &Space<'v, F>)>) -> StepOutcome {
        let mut states = Vec::new();
        for (process, space) in self.spaces.iter().enumerate() {
            let runs = running.filter(|(number, _)| *number == process).map(|(_, space)| space);
            if let Some(space) = runs.or(space.as_ref()) {
                states.push((process, self.state(space)));
            }
        }
        StepOutcome { result, states }
    }

    fn state(&self, space: &Space<'_, F>) -> MemoryState {
        let inside = |start: u64| self.setting.windows.iter().any(|window| window.contains(&start));
        let mut advice = Vec::new();
        space.inspect().each_vma(|vma| {
            let (start, has) = (vma.range.start.addr().0, |flag| vma.flags.contains(flag));
            advice.extend(ForkAdvice::of(start, has(VmaFlags::DONT_FORK), has(VmaFlags::WIPE_ON_FORK)));
        });
        let addrs = self.setting.looked_at().into_iter().flat_map(|range| range.step_by(PAGE as usize));
        let pages = addrs.filter_map(|addr| Some((addr, page_state(space, addr)?)));
        let map = map_lines(space, inside);
        let huge = huge_leaves(self.setting, space, &map);
        MemoryState { advice, pages: pages.collect(), huge, map }
    }

    /// Recounts everything: what the spaces map, and every frame.
    fn recount(&self, running: &Space<'v, F>) {
        let spaces: Vec<_> = self.spaces.iter().flatten().chain([running]).collect();
        QuiescentSystem { machine: self.machine, vm: self.vm, spaces: &spaces, path: self.path }.must_hold();
    }
}

impl<F: Format> ProcessSystem for Library<F> {
    fn name(&self) -> &str {
        "library"
    }

    fn run(&mut self, steps: &[ProcessStep]) -> Vec<StepOutcome> {
        self.machine.unclaim_memory();
        let _cpu = self.machine.enter(CpuId(0));
        let vm = self.system();
        let before = vm.memory().check().expect("frames add up at the start").allocated;
        let first =
            AddressSpace::new(&vm, layout_of(&self.setting), self.path).expect("there is memory for a space");
        fill(&self.setting, &first);
        self.set_thp_disable(&first);
        let mut spaces = [const { None }; MOST_PROCESSES];
        spaces[0] = Some(first);
        let (machine, setting, path) = (&self.machine, &self.setting, self.path);
        let (file, disk) = (self.open_file(&vm), self.disk.as_ref());
        let mut family = Family { machine, vm: &vm, setting, path, file, disk, spaces };
        let mut outcomes = Vec::new();
        while outcomes.len() < steps.len() {
            outcomes.extend(family.turn(&steps[outcomes.len()..]));
        }
        if let Some(first) = family.spaces[0].take() {
            family.recount(&first);
            family.with_file(&first, |world| world.check_disk());
        }
        drop(family);
        vm.trim();
        let after = vm.memory().check().expect("frames add up at the end").allocated;
        assert_eq!(after, before, "frames handed out before and after");
        assert_eq!(self.machine.violations(), [], "the TLB saw the impossible");
        outcomes
    }
}
