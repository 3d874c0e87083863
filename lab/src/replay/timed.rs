//! The timed replay: nothing is checked, and the yardstick is zeroing the frames that it demands.
//!
//! What a replay cannot avoid is to zero each frame that a page gets. The yardstick does just that: frames of
//! the same numbers, of a second machine of the same dirty memory, in the order in which the replay zeroes
//! its own, so that a frame that was used just before is as warm for the one as for the other. Nothing is
//! copied: memory is private and without files.

use super::checker::Checker;
use super::player::Player;
use super::setup::{self, ReplayMachine};
use super::times::{Collected, Times};
use super::{Replay, life::Life, step::Steps};
use crate::median::Median;
use interleaf::space::{Layout, Path, Vm};
use interleaf::units::{CpuId, Order, Pfn};
use serde::Serialize;
use std::hint::black_box;
use std::sync::atomic::{Ordering::SeqCst, fence};
use std::time::Instant;

/// What a replay took.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Timed {
    /// All lives, from exec to the end of the space, microseconds.
    pub replay_us: f64,
    /// Zeroing their frames in the same order, microseconds.
    pub zeroing_us: f64,
    /// The one divided by the other, pair by pair: the median.
    pub ratio: f64,
    /// How many pairs.
    pub pairs: usize,
}

/// A replay that is ready to be timed.
pub struct TimedReplay<'a> {
    replay: &'a Replay,
    path: Path,
    machine: &'a ReplayMachine,
    vm: &'a Vm<'a, ReplayMachine>,
    /// A second machine like the first, on which nothing runs: what the yardstick zeroes.
    idle: ReplayMachine,
    layouts: Vec<Layout>,
    zeroed: Vec<Pfn>,
}

impl<'a> TimedReplay<'a> {
    /// Runs `f` with a replay that is ready, on the calling thread.
    ///
    /// # Errors
    /// One line: the machine cannot be had.
    pub fn with<R>(replay: &Replay, path: Path, f: impl FnOnce(&TimedReplay<'_>) -> R) -> Result<R, String> {
        let new = || setup::machine(&replay.lives).map_err(|error| error.to_string());
        let (machine, idle) = (new()?, new()?);
        let _cpu = machine.enter(CpuId(0));
        let vm = setup::vm(&machine)?;
        let layout = |(life, steps): &(Life, Steps)| setup::layout(&replay.header, life, steps);
        let layouts = replay.lives.iter().map(layout).collect();
        let mut ready =
            TimedReplay { replay, path, machine: &machine, vm: &vm, idle, layouts, zeroed: Vec::new() };
        ready.zeroed = ready.learn_order()?;
        Ok(f(&ready))
    }

    /// Frames in the order in which the replay zeroes them.
    fn learn_order(&self) -> Result<Vec<Pfn>, String> {
        let mut zeroed = Vec::new();
        let header = &self.replay.header;
        // The first replay leaves the free lists as every later one finds them.
        for _ in 0..2 {
            zeroed.clear();
            for ((life, steps), layout) in self.replay.lives.iter().zip(&self.layouts) {
                let space = setup::space(self.vm, *layout, self.path, &life.start)?;
                let _running = space.activate(None);
                let player = Player::new(self.machine, &space, header.limits.stack_bytes);
                zeroed.extend(Checker::new(&player, life, steps, header.limits).play(|| ()).zeroed);
            }
            self.vm.settle();
        }
        Ok(zeroed)
    }

    /// The library that replays.
    pub fn vm(&self) -> &Vm<'a, ReplayMachine> {
        self.vm
    }

    /// How many frames are zeroed.
    pub fn frames_zeroed(&self) -> usize {
        self.zeroed.len()
    }

    /// Replays every life, from its exec to the end of its space. Nanoseconds.
    pub fn play(&self) -> f64 {
        let start = Instant::now();
        for ((life, steps), layout) in self.replay.lives.iter().zip(&self.layouts) {
            let space = setup::space(self.vm, *layout, self.path, &life.start).expect("it was made before");
            let _running = space.activate(None);
            let player = Player::new(self.machine, &space, self.replay.header.limits.stack_bytes);
            black_box(player.play(steps));
        }
        start.elapsed().as_nanos() as f64
    }

    /// Replays every life once more, the clock read before and after each step, and sets that beside what
    /// Linux took.
    pub fn times(&self) -> Times {
        let mut collected = Collected::default();
        for ((life, steps), layout) in self.replay.lives.iter().zip(&self.layouts) {
            let space = setup::space(self.vm, *layout, self.path, &life.start).expect("it was made before");
            let _running = space.activate(None);
            let player = Player::new(self.machine, &space, self.replay.header.limits.stack_bytes);
            let mut step_ns = Vec::with_capacity(steps.steps.len());
            for step in &steps.steps {
                let start = Instant::now();
                black_box(player.step(step, steps));
                step_ns.push(start.elapsed().as_nanos() as u64);
            }
            collected.add(life, steps, &step_ns);
        }
        collected.times()
    }

    /// Zeroes the frames that the replay zeroes, in its order, on the other machine. Nanoseconds.
    pub fn zero(&self) -> f64 {
        let mut idle = self.idle.bare_memory();
        let start = Instant::now();
        for &frame in &self.zeroed {
            idle.zero(frame, Order(0));
        }
        start.elapsed().as_nanos() as f64
    }

    /// As [`zero`](Self::zero), with a fence after each frame: nothing is overlapped. A thread that takes a
    /// lock after zeroing, as a fault does to install its frame, waits until the zeroes have left the CPU.
    pub fn zero_fenced(&self) -> f64 {
        let mut idle = self.idle.bare_memory();
        let start = Instant::now();
        for &frame in &self.zeroed {
            idle.zero(frame, Order(0));
            fence(SeqCst);
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
