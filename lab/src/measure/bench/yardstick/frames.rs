//! buddy_system_allocator's `FrameAllocator`: a buddy of ordered sets, as small kernels use it.
//!
//! It stands here without the lock around it that every kernel with two CPUs needs: more than fair.

use crate::measure::bench::ns_per;
use buddy_system_allocator::FrameAllocator;
use interleaf::units::Order;
use std::cell::{Cell, RefCell};
use std::hint::black_box;

/// One frame taken and given back, all memory being free: every pair splits the largest block and merges it.
pub fn buddy_pair_fresh(nr_frames: usize, times: u64) -> impl FnMut() -> f64 {
    let mut allocator = with_frames(nr_frames);
    move || ns_per(times, || pair(&mut allocator))
}

/// One frame taken and given back, every second frame being in use: nothing is split or merged.
pub fn buddy_pair_used(nr_frames: usize, times: u64) -> impl FnMut() -> f64 {
    let mut allocator = with_frames(nr_frames);
    let taken: Vec<usize> = (0..nr_frames).filter_map(|_| allocator.alloc(1)).collect();
    for frame in taken.into_iter().filter(|frame| frame.is_multiple_of(2)) {
        allocator.dealloc(frame, 1);
    }
    move || ns_per(times, || pair(&mut allocator))
}

/// `batch` frames taken, then all given back in the same order: nanoseconds per frame.
pub fn buddy_batch(nr_frames: usize, batch: usize) -> impl FnMut() -> f64 {
    let mut allocator = with_frames(nr_frames);
    let mut taken = Vec::with_capacity(batch);
    move || {
        let all = ns_per(1, || {
            taken.extend((0..batch).map(|_| take(&mut allocator)));
            taken.drain(..).for_each(|frame| allocator.dealloc(frame, 1));
        });
        all / batch as f64
    }
}

fn with_frames(nr_frames: usize) -> FrameAllocator {
    let mut allocator = FrameAllocator::new();
    allocator.add_frame(0, nr_frames);
    allocator
}

#[inline(always)]
fn take(allocator: &mut FrameAllocator) -> usize {
    allocator.alloc(1).expect("a benchmark never uses up its frames")
}

#[inline(always)]
fn pair(allocator: &mut FrameAllocator) {
    let frame = black_box(take(allocator));
    allocator.dealloc(frame, 1);
}

/// The allocator, and which blocks of 2 MiB are free.
pub struct CountedBuddy {
    allocator: RefCell<FrameAllocator>,
    /// Frames in use of each 2 MiB.
    used: Vec<Cell<usize>>,
}

/// Frames of 2 MiB.
const BLOCK: usize = 512;

impl CountedBuddy {
    /// All of `frames` frames free.
    pub fn new(frames: usize) -> Self {
        Self { allocator: RefCell::new(with_frames(frames)), used: vec![Cell::new(0); frames / BLOCK] }
    }

    /// Takes a block.
    pub fn alloc(&self, order: Order) -> Option<usize> {
        let first = self.allocator.borrow_mut().alloc(order.frames() as usize)?;
        self.count(first, order, |used, frames| used + frames);
        Some(first)
    }

    /// Frees a block.
    pub fn free(&self, first: usize, order: Order) {
        self.count(first, order, |used, frames| used - frames);
        self.allocator.borrow_mut().dealloc(first, order.frames() as usize);
    }

    /// Free blocks of 2 MiB.
    pub fn free_blocks(&self) -> u64 {
        self.used.iter().filter(|used| used.get() == 0).count() as u64
    }

    /// Free frames.
    pub fn free_frames(&self) -> usize {
        self.used.iter().map(|used| BLOCK - used.get()).sum()
    }

    fn count(&self, first: usize, order: Order, add: impl Fn(usize, usize) -> usize) {
        let end = first + order.frames() as usize;
        for block in first / BLOCK..end.div_ceil(BLOCK) {
            let frames = end.min((block + 1) * BLOCK) - first.max(block * BLOCK);
            self.used[block].set(add(self.used[block].get(), frames));
        }
    }
}
