//! The grains of a job that have not begun: a deque for each node, all under one lock. A worker that finds
//! the deque of its own node empty steals half of the longest one and puts it there, in one step.

use super::partition::Grains;
use crate::machine::Cpu;
use crate::sync::{CacheAligned, SpinLock, lockdep};
use crate::units::NodeId;

/// The end of a deque from which a worker takes: the caller from the front, helpers from the back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Front,
    Back,
}

/// Cuts `wanted` grains off one side, if there are any; all where fewer than `min` would be taken, or left.
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

/// The deques of a job; all of it begins in that of the caller's node.
pub(super) struct NodeDeques<C: Cpu> {
    /// The node of deque 0, which is the caller's.
    home: NodeId,
    /// 1 where all CPUs are on one node.
    used: u32,
    deques: CacheAligned<SpinLock<[Grains; DEQUES], C, { lockdep::JOB.0 }>>,
}

impl<C: Cpu> NodeDeques<C> {
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

    /// Number of grains that have not begun; stale at once while others work.
    pub(super) fn nr_left(&self) -> u32 {
        self.deques.lock().iter().map(|deque| deque.len() as u32).sum()
    }

    /// The next chunk of a worker whose deque is `own`: `want` of the number of grains there. `None` where
    /// all have begun.
    pub(super) fn next(&self, own: usize, side: Side, want: impl Fn(u32) -> u32, min: u32) -> Option<Grains> {
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
        cut(&mut deques[own], side, want(have), min)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/deque.rs"]
mod tests;
