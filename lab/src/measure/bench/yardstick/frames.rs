//! buddy_system_allocator's `FrameAllocator`: a buddy of ordered sets, as small kernels use it.
//!
//! It stands here without the lock around it that every kernel with two CPUs needs: more than fair.

use crate::measure::bench::ns_per;
use buddy_system_allocator::FrameAllocator;
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
