//! Workloads of the frame allocator alone: CPUs take memory and give it back, without a fault.

use crate::sample::Operations;
use crate::system::{Machine, Space, System, Workload};
use interleaf::frame::{AllocRequest, Folio, Frame, Memory};
use interleaf::space::Path;
use interleaf::units::Order;
use interleaf_lab::machine::sim::{measured, meet};
use interleaf_lab::rng::Rng;
use std::cell::RefCell;

/// What CPUs take, and what they give back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Frames, more than caches hold, taken and given back in the order in which they were taken.
    Batches,
    /// The same, each CPU giving back what its neighbour took.
    Returned,
    /// Half of memory is in use; frames and blocks of all orders are replaced at random, each CPU its own.
    Mixed,
    /// Half of memory is in use; frames are replaced at random, every second of another CPU.
    Strewn,
    /// Blocks of 2 MiB, taken and given back.
    Huge,
}

/// Frames that there are for each CPU: 64 MiB.
pub const FRAMES: u64 = 16_384;
/// Frames of a round of [`Load::Batches`]: 16 times what a cache holds.
const BATCH: usize = 4096;
/// Replacements of a round of the random loads.
const REPLACED: usize = 1200;
/// More than a cache holds, so that frames of the strewn load go through the zone.
const BURST: usize = 600;
/// Blocks of 2 MiB of a round: half of a CPU's memory.
const BLOCKS: usize = 16;
/// Rounds; the first is not measured.
const ROUNDS: u64 = 4;

/// What each CPU holds.
type Held<'v> = RefCell<Vec<Folio<'v, Machine>>>;

impl Workload for Load {
    type Shared<'v> = Vec<Held<'v>>;

    fn frames(&self, cpus: u32) -> u64 {
        u64::from(cpus) * FRAMES
    }

    fn prepare<'v>(&self, _: &Space<'v>, _: Path, cpus: u32) -> Vec<Held<'v>> {
        (0..cpus).map(|_| RefCell::default()).collect()
    }

    fn run<'v>(&self, on: &System<'_, 'v>, shared: &Vec<Held<'v>>) -> Operations {
        let mut worker = Worker {
            memory: on.space.vm().memory(),
            cpu: on.cpu as usize,
            shared,
            rng: Rng::new(u64::from(on.cpu)),
            done: Operations::default(),
        };
        worker.begin(*self);
        for round in 0..ROUNDS {
            meet();
            worker.round(*self, round > 0);
        }
        meet();
        shared[worker.cpu].take();
        worker.done
    }
}

/// A CPU at work.
struct Worker<'s, 'v> {
    memory: &'v Memory<'v, Machine>,
    cpu: usize,
    shared: &'s [Held<'v>],
    rng: Rng,
    done: Operations,
}

impl<'v> Worker<'_, 'v> {
    fn take(&self, order: Order) -> Folio<'v, Machine> {
        self.memory.alloc(order, AllocRequest::DIRTY).expect("half of memory is free")
    }

    fn take_frame(&self) -> Frame<'v, Machine> {
        self.memory.alloc_frame(AllocRequest::DIRTY).expect("half of memory is free")
    }

    /// Each order has as many frames.
    fn any_order(&mut self) -> Order {
        Order((self.rng.bits() >> 20 | 1 << Order::MAX.0).trailing_zeros() as u8)
    }

    /// Takes what is in use all the time.
    fn begin(&mut self, load: Load) {
        let half = match load {
            Load::Mixed | Load::Strewn => FRAMES / 2,
            Load::Batches | Load::Returned | Load::Huge => 0,
        };
        let mut frames = 0;
        while frames < half {
            let order = if load == Load::Mixed { self.any_order() } else { Order::BASE };
            let folio = self.take(order);
            frames += order.frames();
            self.shared[self.cpu].borrow_mut().push(folio);
        }
    }

    fn round(&mut self, load: Load, is_measured: bool) {
        match load {
            Load::Batches => self.batches(0, is_measured),
            Load::Returned => self.batches(1, is_measured),
            Load::Mixed => self.mixed(is_measured),
            Load::Strewn => self.strewn(is_measured),
            Load::Huge => self.blocks(is_measured),
        }
    }

    /// An operation is a frame or a block taken and given back, or the one replaced by the other.
    fn operation<R>(&mut self, is_measured: bool, act: impl FnOnce(&mut Self) -> R) -> R {
        if !is_measured {
            return act(self);
        }
        let mut done = std::mem::take(&mut self.done);
        let result = measured(|| done.part(|| act(self)));
        self.done = done;
        result
    }

    /// Takes a batch, and gives back that of the CPU so many after this one.
    fn batches(&mut self, after: usize, is_measured: bool) {
        let frames = self.operation(is_measured, |cpu| {
            (0..BATCH).map(|_| Folio::from(cpu.take_frame())).collect::<Vec<_>>()
        });
        *self.shared[self.cpu].borrow_mut() = frames;
        meet();
        let theirs = self.shared[(self.cpu + after) % self.shared.len()].take();
        meet();
        self.operation(is_measured, |_| theirs.into_iter().for_each(drop));
        self.count(is_measured, BATCH);
    }

    fn count(&mut self, is_measured: bool, operations: usize) {
        if is_measured {
            self.done.count(operations);
        }
    }

    fn mixed(&mut self, is_measured: bool) {
        for _ in 0..REPLACED {
            let mut held = self.shared[self.cpu].borrow_mut();
            let at = self.rng.below(held.len() as u64) as usize;
            let old = held.swap_remove(at);
            drop(held);
            let order = old.order();
            // One block for another of its order: so the load stays as it is, whatever the seed.
            let new = self.operation(is_measured, |cpu| {
                let new = cpu.take(order);
                drop(old);
                new
            });
            self.shared[self.cpu].borrow_mut().push(new);
        }
        self.count(is_measured, REPLACED);
    }

    fn strewn(&mut self, is_measured: bool) {
        for _ in 0..REPLACED / BURST {
            let news = self.operation(is_measured, |cpu| {
                (0..BURST).map(|_| Folio::from(cpu.take_frame())).collect::<Vec<_>>()
            });
            let replace = |new| {
                let cpus = self.shared.len() as u64;
                let of = if self.rng.chance(1, 2) { self.cpu } else { self.rng.below(cpus) as usize };
                let mut held = self.shared[of].borrow_mut();
                let at = self.rng.below(held.len() as u64) as usize;
                std::mem::replace(&mut held[at], new)
            };
            let olds: Vec<_> = news.into_iter().map(replace).collect();
            self.operation(is_measured, |_| olds.into_iter().for_each(drop));
        }
        self.count(is_measured, REPLACED);
    }

    fn blocks(&mut self, is_measured: bool) {
        let blocks =
            self.operation(is_measured, |cpu| (0..BLOCKS).map(|_| cpu.take(Order::HUGE)).collect::<Vec<_>>());
        meet();
        self.operation(is_measured, |_| blocks.into_iter().for_each(drop));
        self.count(is_measured, BLOCKS);
    }
}
