//! The grains of a job that have not begun: a deque for each node, all under one lock.
//!
//! All of a job begins in the deque of the caller's node. A worker that finds the deque of its own node empty
//! steals half of the longest one and puts it there, for all workers on this node:
//!
//! ```text
//!   start    node 0 |0 1 2 3 4 5 6 7 8 9 a b|   node 1 |           |
//!   a thief  node 0 |0 1 2 3 4 5|               node 1 |6 7 8 9 a b|   node 1 goes on with b, a, ...
//! ```
//!
//! A theft is one step: a worker that pauses or leaves holds no grains.

use super::partition::Grains;
use crate::machine::Cpu;
use crate::sync::{CacheAligned, SpinLock, lockdep};
use crate::units::NodeId;

/// The end of a deque from which a worker takes. Caller and helpers take from different ends, so that each
/// works on neighbouring grains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Front,
    Back,
}

/// Cuts `wanted` grains off one side; all where fewer than `min` would be taken, or left. `None` of an empty
/// deque.
fn cut(deque: &mut Grains, side: Side, wanted: u32, min: u32) -> Option<Grains> {
    let have = deque.len() as u32;
    let take = if wanted < min || have.saturating_sub(wanted) < min { have } else { wanted };
    let (grains, rest) = match side {
        Side::Front => (deque.start..deque.start + take, deque.start + take..deque.end),
        Side::Back => (deque.end - take..deque.end, deque.start..deque.end - take),
    };
    *deque = rest;
    (have > 0).then_some(grains)
}

/// Number of deques; nodes are folded onto them.
const DEQUES: usize = 4;

/// The deques of a job.
pub(super) struct NodeDeques<C: Cpu> {
    /// The node of deque 0, which is the caller's.
    home: NodeId,
    /// 1 where all CPUs are on one node.
    used: u32,
    deques: CacheAligned<SpinLock<[Grains; DEQUES], C, { lockdep::JOB.0 }>>,
}

impl<C: Cpu> NodeDeques<C> {
    /// All of `grains` in the deque of `home`.
    pub(super) fn new(grains: Grains, home: NodeId, nr_nodes: u32) -> Self {
        let deques = CacheAligned(SpinLock::new([grains, 0..0, 0..0, 0..0]));
        Self { home, used: if nr_nodes > 1 { DEQUES as u32 } else { 1 }, deques }
    }

    /// The deque of the workers on a node.
    pub(super) fn of_node(&self, node: NodeId) -> usize {
        (node.0.wrapping_sub(self.home.0) % self.used) as usize
    }

    /// The grains of each deque that have not begun; stale at once while others work.
    pub(super) fn rests(&self) -> [Grains; DEQUES] {
        self.deques.lock().clone()
    }

    /// The next chunk of a worker whose deque is `own`: `wanted` says how many grains, given the number there
    /// is. `None` where all have begun.
    pub(super) fn next(
        &self,
        own: usize,
        side: Side,
        wanted: impl Fn(u32) -> u32,
        min: u32,
    ) -> Option<Grains> {
        let mut deques = self.deques.lock();
        if deques[own].is_empty() {
            let longest = deques.iter_mut().max_by_key(|deque| deque.len())?;
            let before = longest.clone();
            let stolen = cut(longest, Side::Back, before.len() as u32 / 2, min)?;
            if mutant!("deque.theft-left-behind") {
                *longest = before;
            }
            deques[own] = stolen;
        }
        let have = deques[own].len() as u32;
        cut(&mut deques[own], side, wanted(have), min)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/deque.rs"]
mod tests;
