//! Random calls on an arena of several huge pages: answers, contents, residency, and a recount.

use super::residency::Residency;
use super::{HUGE, HUGE_BYTES};
use crate::check::calls::{Call, MapFlags, PAGE, PageState, Prot, advice, fingerprint};
use crate::check::drive::Driver;
use crate::check::library::{boot_map, layout_of, map_lines, page_state};
use crate::check::model::{Mapping, Spaces};
use crate::check::recount::QuiescentSystem;
use crate::check::rng::Rng;
use crate::check::setting::{InheritedZeroPages, RefusedChange, Setting};
use crate::machine::host::Host;
use crate::machine::soft::{MachineConfig, SoftMachine};
use interleaf::machine::Format;
use interleaf::space::{AddressSpace, Counter, Path, Vm};
use interleaf::units::CpuId;
use interleaf::vma::HugePolicy;
use std::ops::Range;

/// Huge pages of the arena.
const REGIONS: u64 = 3;
/// Frames of the machine: all of the arena twice, for a child, and what goes beside.
const FRAMES: u64 = 12 * HUGE;
/// The arena, in the main window of all settings.
const ARENA: Range<u64> = (16 << 40) + 64 * HUGE_BYTES..(16 << 40) + (64 + REGIONS) * HUGE_BYTES;

/// What sequences did with huge pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct SequenceCounts {
    /// Installed.
    pub installed: u64,
    /// Split.
    pub split: u64,
}

fn setting() -> Setting {
    Setting {
        memory_pages: 1 << 40,
        refused: RefusedChange::ChangesNothing,
        zero_pages: InheritedZeroPages::Everywhere,
        ..Setting::default()
    }
}

/// Runs the sequence of the seed on the library, with faults that go `path` and this policy, and on the
/// model.
///
/// # Panics
/// Where they differ, or something does not add up.
pub fn run_sequence<F: Format>(seed: u64, path: Path, policy: HugePolicy) -> SequenceCounts {
    let setting = setting();
    let machine = SoftMachine::<Host, F>::new(&MachineConfig::small(1, FRAMES)).expect("a machine");
    let _cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory").with_huge_pages(policy);
    let before = vm.memory().check().expect("frames add up").allocated;
    {
        let space = AddressSpace::new(&vm, layout_of(&setting), path).expect("memory for a space");
        let _running = space.activate(None);
        let mut run = Run {
            driver: Driver { machine: &machine, space: &space },
            model: Spaces::new(&setting, 1),
            resident: Residency::new(policy),
            rng: Rng::new(seed),
        };
        for nth in 0..40 {
            let call = run.any_call();
            run.step(seed, &call);
            if nth % 10 == 9 {
                run.compare(&space, 0, seed);
                QuiescentSystem { machine: &machine, vm: &vm, spaces: &[&space], path }.must_hold();
            }
            if nth == 24 {
                let child = space.fork().expect("there is memory");
                let number = run.model.fork(0).expect("there is memory");
                run.resident.fork(&run.model);
                run.compare(&child, number, seed);
                QuiescentSystem { machine: &machine, vm: &vm, spaces: &[&space, &child], path }.must_hold();
                drop(child);
                run.model.end(number);
            }
        }
    }
    vm.trim();
    let after = vm.memory().check().expect("frames add up").allocated;
    assert_eq!(after, before, "frames handed out before and after seed {seed}");
    assert_eq!(machine.violations(), [], "the TLB saw the impossible with seed {seed}");
    let totals = vm.totals();
    assert_eq!(totals.get(Counter::NrAnonTransparentHugepages), 0, "huge pages left with seed {seed}");
    SequenceCounts { installed: totals.get(Counter::ThpFaultAlloc), split: totals.get(Counter::ThpSplitPmd) }
}

struct Run<'a, 'v, F: Format> {
    driver: Driver<'a, 'v, Host, F>,
    model: Spaces,
    resident: Residency,
    rng: Rng,
}

impl<F: Format> Run<'_, '_, F> {
    fn step(&mut self, seed: u64, call: &Call) {
        let mappings: Vec<Mapping> =
            self.model.mappings(0).filter(|vma| ARENA.contains(&vma.start)).cloned().collect();
        let (ours, theirs) = (self.driver.call(call), self.model.call(0, call));
        assert_eq!(ours, theirs, "{call} of seed {seed}: the library, the model");
        self.resident.note(call, &theirs, &mappings, &self.model);
    }

    /// Every page of the arena holds what the model says, and is resident as the rules say; the maps agree.
    fn compare(&self, space: &AddressSpace<'_, SoftMachine<Host, F>>, number: usize, seed: u64) {
        let zeros = fingerprint(&[0; PAGE as usize]);
        let contents = |state: Option<PageState>| match state {
            None | Some(PageState::Zero) => zeros,
            Some(PageState::Own(print) | PageState::Shared(print)) => print,
        };
        for addr in ARENA.step_by(PAGE as usize) {
            let (ours, theirs) = (page_state(space, addr), self.model.page(number, addr));
            assert_eq!(contents(ours), contents(theirs), "contents at {addr:#x}, seed {seed}");
            assert_eq!(ours.is_some(), self.resident.has(addr), "residency at {addr:#x}, seed {seed}");
        }
        assert_eq!(map_lines(space, |start| ARENA.contains(&start)), self.model.map(number), "seed {seed}");
        if number == 0 {
            let huge = space.vm().totals().get(Counter::NrAnonTransparentHugepages);
            assert_eq!(huge, self.resident.huge_pages() as u64, "huge pages with seed {seed}");
        }
    }

    fn any_call(&mut self) -> Call {
        let unit = self.rng.pick(&[PAGE, 64 * PAGE, HUGE_BYTES, HUGE_BYTES]);
        let units = (ARENA.end - ARENA.start) / unit;
        let first = self.rng.below(units);
        let addr = ARENA.start + first * unit;
        let len = (1 + self.rng.below((2 * HUGE_BYTES / unit).min(units - first))) * unit;
        let len = len.min(ARENA.end - addr);
        let both = Prot::READ | Prot::WRITE;
        match self.rng.below(20) {
            0..=3 => {
                let flags = MapFlags::FIXED | MapFlags::PRIVATE | MapFlags::ANONYMOUS;
                Call::Mmap { hint: addr, len, prot: both, flags }
            }
            4 | 5 => Call::Munmap { addr, len },
            6 => Call::Mprotect { addr, len, prot: self.rng.pick(&[Prot::READ, Prot::empty(), both, both]) },
            7..=9 => {
                let advice = self.rng.weighted(&[
                    (4, advice::DONTNEED),
                    (2, advice::FREE),
                    (3, advice::HUGEPAGE),
                    (1, advice::NOHUGEPAGE),
                    (1, advice::DONTDUMP),
                    (1, advice::POPULATE_READ),
                    (2, advice::POPULATE_WRITE),
                ]);
                Call::Madvise { addr, len, advice }
            }
            10 => Call::Read { addr },
            _ => Call::Write {
                addr: addr + self.rng.below(len / PAGE) * PAGE,
                value: self.rng.below(256) as u8,
            },
        }
    }
}
