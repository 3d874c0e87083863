//! The timed replay: nothing is checked, and the yardstick is zeroing the frames that it demands.
//!
//! What a replay cannot avoid is to zero each frame that a page gets, or to copy it after a fork. The
//! yardstick does just that: frames of the same numbers, of a second machine of the same dirty memory, in the
//! order in which the replay zeroes its own, so that a frame that was used just before is as warm for the one
//! as for the other.

use super::Replay;
use super::checked::Checking;
use super::fault_counts::FaultCounts;
use super::life::Family;
use super::objects::Objects;
use super::play::{self, Visitor};
use super::player::Player;
use super::setup::{self, ReplayMachine};
use super::step::Steps;
use super::times::{Collected, Times};
use super::verdict::Filled;
use crate::median::Median;
use interleaf::space::{Layout, Path, Vm};
use interleaf::units::{CpuId, Order};
use serde::Serialize;
use std::hint::black_box;
use std::sync::atomic::{Ordering::SeqCst, fence};
use std::time::Instant;

/// What a replay took.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Timed {
    /// All lives, from exec to the end of the space, microseconds.
    pub replay_us: f64,
    /// Zeroing and copying their frames in the same order, microseconds.
    pub zeroing_us: f64,
    /// The one divided by the other, pair by pair: the median.
    pub ratio: f64,
    /// How many pairs.
    pub pairs: usize,
}

/// A replay that is ready to be timed.
pub struct TimedReplay<'a> {
    stage: Stage<'a>,
    path: Path,
    /// A second machine like the first, on which nothing runs: what the yardstick zeroes.
    idle: ReplayMachine,
    filled: Vec<Filled>,
}

/// The system that a replay runs on, on either path.
pub(super) struct Stage<'a> {
    replay: &'a Replay,
    machine: &'a ReplayMachine,
    vm: &'a Vm<'a, ReplayMachine>,
    layouts: Vec<Layout>,
}

impl<'a> Stage<'a> {
    /// Runs `f` with a system for the replay, on the calling thread.
    ///
    /// # Errors
    /// One line: the machine cannot be had.
    pub(super) fn with<R>(
        replay: &Replay,
        f: impl FnOnce(Stage<'_>) -> Result<R, String>,
    ) -> Result<R, String> {
        let machine = setup::machine(replay.frames).map_err(|error| error.to_string())?;
        let _cpu = machine.enter(CpuId(0));
        let vm = setup::vm(&machine, replay.huge, &replay.files)?;
        let layouts = replay.families.iter().map(|family| setup::layout(&replay.header, family)).collect();
        f(Stage { replay, machine: &machine, vm: &vm, layouts })
    }

    /// Plays every family, each as `visit` makes a visitor for it.
    ///
    /// # Errors
    /// One line: there is no memory.
    fn each<V: Visitor>(
        &self,
        path: Path,
        visit: impl Fn(&'a Family) -> V,
        mut done: impl FnMut(&'a Family, V),
    ) -> Result<(), String> {
        let stack_limit = self.replay.header.limits.stack_bytes;
        for (family, layout) in self.replay.families.iter().zip(&self.layouts) {
            let objects = Objects::new(self.vm, &self.replay.files);
            let space = setup::space(self.vm, *layout, path, &family.lives[0], &objects)?;
            let counts = FaultCounts::default();
            let mut visitor = visit(family);
            play::play(family, self.machine, space, stack_limit, &counts, &objects, &mut visitor)?;
            done(family, visitor);
        }
        Ok(())
    }

    /// Replays every life, from its exec to the end of its space. Nanoseconds.
    ///
    /// # Errors
    /// One line: there is no memory.
    pub(super) fn play(&self, path: Path) -> Result<f64, String> {
        let start = Instant::now();
        self.each(path, |family| Plain(&family.steps), |_, _| ())?;
        Ok(start.elapsed().as_nanos() as f64)
    }
}

impl<'a> TimedReplay<'a> {
    /// Runs `f` with a replay that is ready, on the calling thread.
    ///
    /// # Errors
    /// One line: the machine cannot be had.
    pub fn with<R>(replay: &Replay, path: Path, f: impl FnOnce(&TimedReplay<'_>) -> R) -> Result<R, String> {
        let idle = setup::machine(replay.frames).map_err(|error| error.to_string())?;
        Stage::with(replay, |stage| {
            let mut ready = TimedReplay { stage, path, idle, filled: Vec::new() };
            ready.filled = ready.learn_order()?;
            Ok(f(&ready))
        })
    }

    /// Frames in the order in which the replay zeroes them, or copies to them.
    fn learn_order(&self) -> Result<Vec<Filled>, String> {
        let mut filled = Vec::new();
        // The first replay leaves the free lists as every later one finds them.
        for _ in 0..2 {
            filled.clear();
            let Replay { header, huge, .. } = self.stage.replay;
            let checking = |family| Checking::new(family, header.limits, *huge, |_: &str| ());
            self.stage.each(self.path, checking, |_, checking| filled.extend(checking.filled))?;
            self.stage.vm.synchronize();
        }
        Ok(filled)
    }

    /// The library that replays.
    pub fn vm(&self) -> &Vm<'a, ReplayMachine> {
        self.stage.vm
    }

    /// How many frames are zeroed or copied to.
    pub fn frames_filled(&self) -> usize {
        self.filled.len()
    }

    /// Replays every life, from its exec to the end of its space. Nanoseconds.
    pub fn play(&self) -> f64 {
        self.stage.play(self.path).expect("it was played before")
    }

    /// Replays every life once more, the clock read before and after each step, and sets that beside what
    /// Linux took.
    pub fn times(&self) -> Times {
        let mut collected = Collected::default();
        let clocked = |family: &'a Family| Clocked {
            steps: &family.steps,
            step_ns: family.steps.iter().map(|steps| Vec::with_capacity(steps.steps.len())).collect(),
        };
        let add = |family: &'a Family, clocked: Clocked<'a>| {
            for ((life, steps), step_ns) in family.each().zip(&clocked.step_ns) {
                collected.add(life, steps, step_ns);
            }
        };
        self.stage.each(self.path, clocked, add).expect("it was played before");
        collected.times()
    }

    /// Zeroes the frames that the replay zeroes, and copies those that it copies, in its order, on the other
    /// machine. Nanoseconds.
    pub fn zero(&self) -> f64 {
        self.fill(|| ())
    }

    /// As [`zero`](Self::zero), with a fence after each frame: nothing is overlapped. A thread that takes a
    /// lock after zeroing, as a fault does to install its frame, waits until the zeroes have left the CPU.
    pub fn zero_fenced(&self) -> f64 {
        self.fill(|| fence(SeqCst))
    }

    #[inline(always)]
    fn fill(&self, after_each: impl Fn()) -> f64 {
        let mut idle = self.idle.bare_memory();
        let start = Instant::now();
        for &filled in &self.filled {
            match filled {
                Filled::Zeroed(frame) => idle.zero(frame, Order(0)),
                Filled::ZeroedFolio(first) => idle.zero(first, Order::HUGE),
                Filled::Copied(from, to) => idle.copy(from, to),
            }
            after_each();
        }
        start.elapsed().as_nanos() as f64
    }

    /// Times `pairs` pairs, turn by turn.
    pub fn pairs(&self, pairs: usize) -> Timed {
        let times: Vec<(f64, f64)> = (0..pairs).map(|_| (self.play(), self.zero())).collect();
        let median = |values: Vec<f64>| Median::of(&values).middle;
        Timed {
            replay_us: median(times.iter().map(|t| t.0 / 1000.0).collect()),
            zeroing_us: median(times.iter().map(|t| t.1 / 1000.0).collect()),
            ratio: median(times.iter().map(|t| t.0 / t.1).collect()),
            pairs,
        }
    }
}

/// Plays the steps, and nothing else.
struct Plain<'a>(&'a [Steps]);

impl Visitor for Plain<'_> {
    #[inline]
    fn step(&mut self, life: usize, at: usize, player: &Player<'_, '_>) {
        let all = &self.0[life];
        black_box(player.step(&all.steps[at], all));
    }
}

/// Plays the steps, and notes how long each takes.
struct Clocked<'a> {
    steps: &'a [Steps],
    step_ns: Vec<Vec<u64>>,
}

impl Visitor for Clocked<'_> {
    fn step(&mut self, life: usize, at: usize, player: &Player<'_, '_>) {
        let all = &self.steps[life];
        let start = Instant::now();
        black_box(player.step(&all.steps[at], all));
        self.step_ns[life].push(start.elapsed().as_nanos() as u64);
    }
}
