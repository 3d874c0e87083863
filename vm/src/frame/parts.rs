//! Work on a large block in parts: zeroing and copying, by helpers where there are any.
//!
//! A block of 2 MiB takes as long to zero as hundreds of faults, so its caller waits. Idle CPUs
//! take parts of it, the caller works too: at the end it waits for no more than the parts that helpers have
//! begun, which are expedited meanwhile, however low their priority is.
//! (Linux: padata's multithreaded jobs; its own huge pages are zeroed by the faulting CPU.)

use super::Memory;
use crate::machine::Machine;
use crate::units::{Order, Pfn};
use crate::work::{Chunk, Job, WorkerPool};
use core::convert::Infallible;

/// A part: what a CPU zeroes in a few microseconds.
pub(super) const PART: Order = Order(4);
/// Parts that a helper takes at once, at least.
const PARTS_AT_ONCE: u64 = 2;
/// Parts for which one helper more is asked.
const PARTS_A_HELPER: u64 = 4;

impl<M: Machine> Memory<'_, M> {
    /// Calls `work` with the first frame of each part of the block, which is of [`Order::HUGE`] at least,
    /// once for each, or, where a helper panicked, again; by a job of the helpers of the block's node where
    /// there are workers.
    ///
    /// # Panics
    /// Where the block is smaller: it might not be whole parts.
    pub(super) fn in_parts(
        &self,
        workers: Option<&WorkerPool<'_, M>>,
        (pfn, order): (Pfn, Order),
        work: impl Fn(Pfn) + Sync,
    ) {
        assert!(order >= Order::HUGE, "a block of {order:?} is not cut");
        let nr = order.frames() / PART.frames();
        let each = |range: core::ops::Range<u64>| range.for_each(|part| work(pfn.add(part * PART.frames())));
        let Some(workers) = workers.filter(|workers| workers.may_have_helper_racy()) else {
            return each(0..nr);
        };
        let job = Job::new(0..nr, |chunk: &Chunk<'_>| {
            each(chunk.range());
            Ok::<(), Infallible>(())
        });
        let job = job.min_chunk(PARTS_AT_ONCE).max_helpers((nr / PARTS_A_HELPER) as u32 - 1);
        if workers.run(&job.on_nodes(self.zone_of(pfn).helper_nodes(self.machine))).is_err() {
            // A helper panicked: its parts are not known.
            each(0..nr);
        }
    }
}
