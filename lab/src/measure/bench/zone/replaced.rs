//! LLFree's benchmark `frag`: how many blocks of 2 MiB come back when frames are replaced at random?
//!
//! Nine tenths of memory are taken, and a random half of that is freed. Then, 100 times, every CPU frees a
//! tenth of what it has at random, and after that every CPU takes as much. (`luhsra/linux-alloc-bench`.) One
//! thread plays the CPUs in turns, so every run counts the same.

use super::{counted_machine, free_blocks, memory_of};
use crate::error::Failure;
use crate::measure::bench::yardstick::frames::CountedBuddy;
use crate::measure::bench::{Figure, Options};
use crate::measure::timed_machine::TimedMachine;
use crate::rng::Rng;
use interleaf::frame::{AllocRequest, Frame, Memory};
use interleaf::units::{CpuId, Order};

/// CPUs of the load.
const CPUS: usize = 8;
/// Frames that a CPU takes or frees at a time.
const TURN: usize = 300;

/// An allocator of frames that is counted.
trait Frames {
    type Frame;
    /// Does something on a CPU.
    fn on_cpu<R>(&self, cpu: usize, act: impl FnOnce() -> R) -> R;
    /// Takes a frame.
    fn take(&self) -> Self::Frame;
    /// Frees a frame.
    fn give(&self, frame: Self::Frame);
    /// % of what is free that is blocks of 2 MiB.
    fn percent(&self) -> f64;
}

/// The library's zone, the one region of a machine with one CPU, and a buddy of ordered sets.
pub fn figures(options: &Options) -> Result<[Figure; 3], Failure> {
    let frames = options.size(1 << 20, 1 << 16);
    let rounds = options.size(100, 4);
    let play_on = |nr_cpus| -> Result<f64, Failure> {
        let machine = counted_machine(frames, nr_cpus)?;
        let memory = memory_of(&machine)?;
        Ok(play(&Zone { machine: &machine, memory: &memory, nr_cpus }, frames, rounds))
    };
    let (ours, one_region) = (play_on(CPUS as u32)?, play_on(1)?);
    let buddy = play(&CountedBuddy::new(frames as usize), frames, rounds);
    Ok([
        Figure::count("zone.blocks_back", ours, "% of what is free is blocks"),
        Figure::count("zone.blocks_back_one_region", one_region, "% of what is free is blocks"),
        Figure::count("zone.blocks_back_buddy", buddy, "% of what is free is blocks"),
    ])
}

fn play<F: Frames>(frames: &F, nr_frames: u64, rounds: usize) -> f64 {
    let mut rng = Rng::new(1);
    let each = nr_frames as usize * 9 / 10 / CPUS;
    let mut held: Vec<Vec<F::Frame>> = (0..CPUS).map(|_| Vec::new()).collect();
    in_turns(frames, &mut held, each, |held, turn| held.extend((0..turn).map(|_| frames.take())));
    let mut all: Vec<F::Frame> = held.drain(..).flatten().collect();
    for at in 0..all.len() {
        all.swap(at, rng.below(nr_frames * 9 / 10 / CPUS as u64 * CPUS as u64) as usize);
    }
    held.extend((0..CPUS).map(|_| all.split_off(all.len() - each)));
    let mut free = |held: &mut Vec<F::Frame>, turn: usize| {
        for _ in 0..turn {
            frames.give(held.swap_remove(rng.below(held.len() as u64) as usize));
        }
    };
    in_turns(frames, &mut held, each / 2, &mut free);
    for _ in 0..rounds {
        in_turns(frames, &mut held, each / 20, &mut free);
        in_turns(frames, &mut held, each / 20, |held, turn| held.extend((0..turn).map(|_| frames.take())));
    }
    let percent = frames.on_cpu(0, || frames.percent());
    in_turns(frames, &mut held, each, |held, turn| {
        held.drain(..turn.min(held.len())).for_each(|frame| frames.give(frame));
    });
    percent
}

/// Each CPU does something with what it has, so many times in all, a turn after the other.
fn in_turns<F: Frames>(
    frames: &F,
    held: &mut [Vec<F::Frame>],
    times: usize,
    mut act: impl FnMut(&mut Vec<F::Frame>, usize),
) {
    for done in (0..times).step_by(TURN) {
        for (cpu, held) in held.iter_mut().enumerate() {
            frames.on_cpu(cpu, || act(held, TURN.min(times - done)));
        }
    }
}

/// The library's, with the CPUs' caches.
struct Zone<'m> {
    machine: &'m TimedMachine,
    memory: &'m Memory<'m, TimedMachine>,
    nr_cpus: u32,
}

impl<'m> Frames for Zone<'m> {
    type Frame = Frame<'m, TimedMachine>;

    fn on_cpu<R>(&self, cpu: usize, act: impl FnOnce() -> R) -> R {
        let _entered = self.machine.enter(CpuId(cpu as u32 % self.nr_cpus));
        act()
    }

    fn take(&self) -> Self::Frame {
        self.memory.alloc_frame(AllocRequest::DIRTY).expect("a tenth of memory is free")
    }

    fn give(&self, frame: Self::Frame) {
        drop(frame);
    }

    fn percent(&self) -> f64 {
        free_blocks(self.memory) as f64 * 51_200.0 / self.memory.stats().free() as f64
    }
}

impl Frames for CountedBuddy {
    type Frame = usize;

    fn on_cpu<R>(&self, _: usize, act: impl FnOnce() -> R) -> R {
        act()
    }

    fn take(&self) -> usize {
        self.alloc(Order::BASE).expect("a tenth of memory is free")
    }

    fn give(&self, frame: usize) {
        self.free(frame, Order::BASE);
    }

    fn percent(&self) -> f64 {
        self.free_blocks() as f64 * 51_200.0 / self.free_frames() as f64
    }
}
