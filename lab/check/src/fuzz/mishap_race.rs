//! An allocation refused, in a random state, while other CPUs fault: on the seeded machine.
//!
//! A sequence leads to a state; then CPU 0 makes its last step, and two more CPUs touch pages of the same
//! space. One allocation fails, or all from one on, on any CPU. Afterwards the answer is that of an
//! undisturbed run, or says that memory lacks and all mappings are as they were, but for identities that
//! faults have given; everything adds up, and the same operation is answered as in the undisturbed run.

use super::mishap::{goes_page_by_page, perform_all};
use super::space::step::{Circumstances, Draw, Operation, Refusal, Scope, Step};
use super::space::world::{StepResult, Turn, World, machine, with_world};
use crate::calls::Call;
use interleaf::space::Fault;
use interleaf::table::format::X86_64;
use interleaf::units::{Access, VirtAddr, Vpn};
use interleaf::vma::{Backing, VmaFlags};
use interleaf_lab::machine::baton::{Baton, Options, Program, Schedule, explore};
use interleaf_lab::machine::soft::SoftMachine;
use interleaf_lab::rng::Rng;
use std::cell::RefCell;

type Seeded<'a, 's, 'v> = World<'a, 's, 'v, Baton, X86_64>;

/// Faults of each other CPU.
const FAULTS: usize = 6;

/// Plays the case of `seed`: one execution.
///
/// # Errors
/// The report of the schedule that failed.
pub fn play(seed: u64) -> Result<u64, String> {
    let options = Options { limit_steps: 2_000_000, keep: 60 };
    let seed = seed >> 1;
    explore(seed..seed + 1, options, scenario).map(|_| 1).map_err(|report| report.to_string())
}

/// What one run does.
struct Race {
    circumstances: Circumstances,
    setup: Vec<Step>,
    last: Step,
    refusal: Refusal,
    /// What the other CPUs touch.
    faults: [Vec<Fault>; 2],
}

impl Race {
    fn of_seed(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let drawn = Circumstances::draw(&mut rng, Scope::Everything);
        let circumstances = Circumstances { cpus: 1, ..drawn };
        let nth = 1 + rng.below(10);
        let refusal = if rng.chance(2, 3) { Refusal::Nth(nth) } else { Refusal::From(nth) };
        let length = 2 + rng.below(16);
        let mut draw = Draw::new(Rng::new(rng.bits()), &circumstances, false);
        let mut setup = draw.steps(length);
        let last = setup.pop().expect("at least two steps");
        let mut faults = || {
            let access = |n: usize| [Access::Write, Access::Read][n % 2];
            (0..FAULTS).map(|n| Fault { addr: VirtAddr(draw.word()), access: access(n) }).collect()
        };
        let faults = [faults(), faults()];
        Self { circumstances, setup, last, refusal, faults }
    }

    /// The answer where no allocation fails and no other CPU runs.
    fn undisturbed(&self, machine: &mut SoftMachine<Baton, X86_64>) -> Result<StepResult, String> {
        with_world(machine, &self.circumstances, |world| {
            let mut turn = None;
            perform_all(world, &mut turn, &self.setup);
            Turn::to(&mut turn, world, (0, self.last.space));
            Ok(world.perform(self.last.space, &self.last.operation))
        })
    }

    /// Runs all CPUs; returns what CPU 0 was answered.
    fn race(&self, schedule: &Schedule, world: &Seeded<'_, '_, '_>) -> StepResult {
        let answer = RefCell::new(None);
        let space = world.space(self.last.space);
        let first: Program<'_> = Box::new(|| {
            let _running = space.activate(None);
            *answer.borrow_mut() = Some(world.perform(self.last.space, &self.last.operation));
        });
        let other = |faults: &'_ [Fault]| -> Program<'_> {
            let faults = faults.to_vec();
            let space = &space;
            Box::new(move || {
                let _running = space.activate(None);
                for fault in faults {
                    // It may be refused for whatever reason: what it leaves is recounted.
                    let _ = space.fault(fault);
                }
            })
        };
        let others = self.faults.iter().map(|faults| other(faults));
        schedule.run(world.machine, std::iter::once(first).chain(others).collect());
        answer.take().expect("CPU 0 has come to its end")
    }

    fn play(&self, schedule: &Schedule) -> Result<(), String> {
        let mut machine = machine().map_err(|error| error.to_string())?;
        let plain = self.undisturbed(&mut machine)?;
        with_world(&mut machine, &self.circumstances, |world| {
            let mut turn = None;
            perform_all(world, &mut turn, &self.setup);
            Turn::to(&mut turn, world, (0, self.last.space));
            world.vm.trim();
            let before = pieces(world);
            drop(turn.take());
            world.plan(self.refusal);
            let answer = self.race(schedule, world);
            let happened = world.cancel();
            Turn::to(&mut turn, world, (0, self.last.space));
            self.check(world, (&plain, &answer), happened, before)
        })
    }

    fn check(
        &self,
        world: &Seeded<'_, '_, '_>,
        (plain, answer): (&StepResult, &StepResult),
        happened: bool,
        before: Vec<Piece>,
    ) -> Result<(), String> {
        let operation = &self.last.operation;
        if is_same(operation, answer, plain) {
            return Ok(());
        }
        if !happened || !answer.is_lack(operation) {
            return Err(format!("{operation:x?} answers {answer:x?}, undisturbed {plain:x?}"));
        }
        if !plain.is_refused() && !goes_page_by_page(operation) && pieces(world) != before {
            return Err(format!("{operation:x?} lacks memory and changed the map from\n{before:#x?}"));
        }
        let again = world.perform(self.last.space, operation);
        let same = is_same(operation, &again, plain);
        if same { Ok(()) } else { Err(format!("{operation:x?} again: {again:x?}, not {plain:x?}")) }
    }
}

fn scenario(schedule: &Schedule) {
    let race = Race::of_seed(schedule.seed());
    race.play(schedule).unwrap_or_else(|what| panic!("{what}"));
}

/// Whether the answers are the same; which pages are present depends on the other CPUs.
fn is_same(operation: &Operation, one: &StepResult, other: &StepResult) -> bool {
    matches!(operation, Operation::Call(Call::Mincore { .. })) || one == other
}

/// A range of pages that are mapped alike, identities apart.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    space: usize,
    start: Vpn,
    end: Vpn,
    flags: VmaFlags,
    backing: Backing,
}

/// All that is mapped, in pieces as large as they can be.
fn pieces(world: &Seeded<'_, '_, '_>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (space, mappings) in world.mappings().into_iter().enumerate() {
        for vma in mappings {
            let (start, end) = (vma.range.start, vma.range.end);
            let piece = Piece { space, start, end, flags: vma.flags, backing: vma.backing.get() };
            match pieces.last_mut() {
                Some(last) if *last == (Piece { start: last.start, end: start, ..piece.clone() }) => {
                    last.end = end
                }
                _ => pieces.push(piece),
            }
        }
    }
    pieces
}
