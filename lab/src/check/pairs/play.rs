//! One pair on the seeded machine.

use super::Operation;
use super::legal::{Seen, looked_at, outcomes};
use super::operations::{Step, Variation, setup, touches};
use crate::baton::{Baton, Options, Program, Report, Stage, play};
use crate::check::calls::{Answer, Call, MapLine, PAGE, Prot};
use crate::check::drive::Driver;
use crate::check::library::{boot_map, layout_of, page_state};
use crate::check::recount::Scene;
use crate::check::setting::Setting;
use crate::soft::{Plan, SoftMachine};
use interleaf::machine::Format;
use interleaf::space::{AddressSpace, Vm};
use interleaf::units::CpuId;
use interleaf::vma::VmaFlags;
use std::cell::RefCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;

type Machine<F> = SoftMachine<Baton, F>;
type Space<'v, F> = AddressSpace<'v, Machine<F>>;

/// A seed that went wrong, and how to see it again.
#[derive(Debug)]
pub struct Trouble {
    /// The operations of CPU 0 and CPU 1.
    pub pair: (Operation, Operation),
    /// The circumstances.
    pub variation: Variation,
    /// The verdict and the last steps.
    pub report: Report,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (a, b) = self.pair;
        writeln!(f, "{a:?} against {b:?}, {:?}:", self.variation)?;
        write!(f, "{}", self.report)
    }
}

/// Frames of the machine.
const FRAMES: u64 = 512;

/// The setting of all runs: nothing is refused for lack of memory.
fn setting() -> Setting {
    Setting { memory_pages: 1 << 40, ..Setting::default() }
}

/// Plays a pair with each seed; a seed decides the variation and the schedule. Returns how many steps there were.
///
/// # Errors
/// The first seed that went wrong.
pub fn play_pair<F: Format>(pair: (Operation, Operation), seeds: Range<u64>) -> Result<u64, Box<Trouble>> {
    let mut legal: Vec<Option<Vec<Seen>>> = vec![None; Variation::COUNT as usize];
    let mut steps = 0;
    for seed in seeds {
        let variation = Variation::of_seed(seed);
        let known = &mut legal[(seed % Variation::COUNT) as usize];
        let legal = known.get_or_insert_with(|| outcomes(pair, variation, &setting())).clone();
        let options = Options { limit_steps: 200_000, keep: 80 };
        let report = play(seed, options, move |stage| scene::<F>(stage, pair, variation, &legal));
        steps += report.steps;
        if !report.passed() {
            return Err(Box::new(Trouble { pair, variation, report }));
        }
    }
    Ok(steps)
}

fn scene<F: Format>(stage: &Stage, pair: (Operation, Operation), variation: Variation, legal: &[Seen]) {
    let (setting, machine) = (setting(), Machine::<F>::new(&Plan::small(2, FRAMES)).expect("a machine"));
    let cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory");
    let before = vm.memory().check().expect("frames add up at the start").handed_out;
    let new = || AddressSpace::new(&vm, layout_of(&setting), variation.path).expect("memory for a space");
    // A check that fails leaves the space as it is.
    let space = ManuallyDrop::new(new());
    let others = [new(), new()].map(|other| RefCell::new(Some(other)));
    drop(cpu);
    prepare(&machine, &space, &others, variation, &setting);
    let answers = race(stage, &machine, &space, &others, pair, variation, &setting);
    let cpu = machine.enter(CpuId(0));
    let kept: Vec<_> = others.into_iter().filter_map(RefCell::into_inner).collect();
    let spaces: Vec<_> = std::iter::once(&*space).chain(&kept).collect();
    Scene { machine: &machine, vm: &vm, spaces: &spaces, path: variation.path }.must_hold();
    let seen = look(&space, &setting, answers);
    assert!(legal.contains(&seen), "an outcome that no order explains: {seen:#x?}\nlegal are {legal:#x?}");
    space.leave_cpu();
    drop(cpu);
    {
        let _cpu = machine.enter(CpuId(1));
        space.leave_cpu();
        vm.trim();
    }
    let _cpu = machine.enter(CpuId(0));
    drop((ManuallyDrop::into_inner(space), kept));
    vm.trim();
    let after = vm.memory().check().expect("frames add up at the end").handed_out;
    assert_eq!(after, before, "frames handed out before and after");
}

/// Maps, and has each CPU touch what it is to remember. Both run the space afterwards.
fn prepare<F: Format>(
    machine: &Machine<F>,
    space: &Space<'_, F>,
    others: &[RefCell<Option<Space<'_, F>>>; 2],
    variation: Variation,
    setting: &Setting,
) {
    let driver = Driver { machine, space };
    for cpu in 0..2 {
        let _cpu = machine.enter(CpuId(cpu));
        if let Some(other) = &*others[cpu as usize].borrow() {
            let _running = other.run();
            let driver = Driver { machine, space: other };
            setup(variation, setting.start_brk).iter().for_each(|call| drop(driver.call(call)));
        }
        space.enter_cpu();
        if cpu == 0 {
            setup(variation, setting.start_brk).iter().for_each(|call| drop(driver.call(call)));
        }
        touches(variation).iter().for_each(|call| drop(driver.call(call)));
    }
}

/// Runs both CPUs; returns what each was answered.
fn race<'v, F: Format>(
    stage: &Stage,
    machine: &Machine<F>,
    space: &Space<'v, F>,
    others: &[RefCell<Option<Space<'v, F>>>; 2],
    pair: (Operation, Operation),
    variation: Variation,
    setting: &Setting,
) -> [Vec<Answer>; 2] {
    let answers = [RefCell::new(Vec::new()), RefCell::new(Vec::new())];
    let program = |(cpu, operation): (usize, Operation)| -> Program<'_> {
        let (other, answers) = (&others[cpu], &answers[cpu]);
        let steps = operation.steps(cpu as u64, variation.place, setting.start_brk);
        Box::new(move || {
            for step in steps {
                let answer = take_step(Driver { machine, space }, other, step);
                answers.borrow_mut().extend(answer);
            }
        })
    };
    stage.run(machine, [pair.0, pair.1].into_iter().enumerate().map(program).collect());
    answers.map(RefCell::into_inner)
}

fn take_step<'v, F: Format>(
    driver: Driver<'_, 'v, Baton, F>,
    other: &RefCell<Option<Space<'v, F>>>,
    step: Step,
) -> Option<Answer> {
    match step {
        Step::Call(call) | Step::Access(call) => Some(driver.call(&call)),
        Step::Pages { addr, pages, advice } => {
            Some(driver.call(&Call::Madvise { addr, len: pages * PAGE, advice }))
        }
        Step::OtherSpaceEnds => {
            drop(other.take());
            None
        }
        Step::OtherSpaceRuns => {
            let other = other.borrow();
            let other = other.as_ref().expect("it is there until it ends");
            other.switch_from(driver.space);
            let addr = super::operations::BASE;
            let answer =
                Driver { machine: driver.machine, space: other }.call(&Call::Write { addr, value: 5 });
            assert_eq!(answer, Answer::Written, "a store in the other space");
            driver.space.switch_from(other);
            None
        }
    }
}

fn look<F: Format>(space: &Space<'_, F>, setting: &Setting, answers: [Vec<Answer>; 2]) -> Seen {
    let mut map = Vec::new();
    space.each_vma(|vma| {
        let (start, end) = (vma.range.start.addr().0, vma.range.end.addr().0);
        let prot = Prot::from_bits_retain((vma.flags & VmaFlags::ACCESS).bits());
        map.push(MapLine { start, end, prot, object: None });
    });
    let pages = looked_at(setting).filter_map(|addr| Some((addr, page_state(space, addr)?))).collect();
    Seen { answers, map, pages }
}
