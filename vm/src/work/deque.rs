//! The grains of a job that have not begun: a deque for each node, in one word.
//!
//! The word is `front << 32 | back`: grains `front..back` have not begun. The caller takes from the front,
//! helpers from the back, and a thief from another node the back half, all by compare-and-exchange. Nodes are
//! folded onto a few deques. All of a job begins in the deque of the caller's node. A worker that finds the
//! deque of its own node empty steals half of another one and puts it there, for all workers on this node:
//!
//! ```text
//!   start    node 0 |0 1 2 3 4 5 6 7 8 9 a b|   node 1 |           |
//!   a thief  node 0 |0 1 2 3 4 5|               node 1 |6 7 8 9 a b|   node 1 goes on with b, a, ...
//! ```
//!
//! | word | means |
//! |---|---|
//! | `front < back` | grains `front..back` are free to take |
//! | `front >= back` | empty |
//! | all ones | empty; a worker of this node is stealing grains to refill it |
//!
//! A word may return to an earlier value (stolen grains are stolen back). The exchange is right then too, as
//! the value is the whole state of the deque. A grain is in one word, or held by one worker. A worker holds
//! one chunk, or between the two steps of a theft the grains that it steals, so a worker that pauses or
//! leaves holds none.

use super::partition::Grains;
use crate::machine::Cpu;
use crate::sync::CacheAligned;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::units::NodeId;

/// The deque is empty, and a worker refills it.
const REFILLING: u64 = u64::MAX;

const fn pack(grains: &Grains) -> u64 {
    (grains.start as u64) << 32 | grains.end as u64
}

const fn unpack(word: u64) -> Grains {
    (word >> 32) as u32..word as u32
}

/// Number of grains.
const fn len(word: u64) -> u32 {
    let Grains { start, end } = unpack(word);
    end.saturating_sub(start)
}

/// Cuts `wanted` grains off the front; all where fewer than `min` would be left.
fn cut_front(word: u64, wanted: u32, min: u32) -> Option<(Grains, u64)> {
    let Grains { start, end } = unpack(word);
    let have = Some(len(word)).filter(|&have| have > 0)?;
    let take = if have - wanted.min(have) < min { have } else { wanted };
    Some((start..start + take, pack(&(start + take..end))))
}

/// Cuts `wanted` grains off the back; all where fewer than `min` would be left, or taken.
fn cut_back(word: u64, wanted: u32, min: u32) -> Option<(Grains, u64)> {
    let Grains { start, end } = unpack(word);
    let have = Some(len(word)).filter(|&have| have > 0)?;
    let take = if wanted < min || have - wanted.min(have) < min { have } else { wanted };
    let rest = if mutant!("deque.theft-left-behind") { word } else { pack(&(start..end - take)) };
    Some((end - take..end, rest))
}

/// The end of a deque from which a worker takes. Caller and helpers take from different ends, so that each
/// works on neighbouring grains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Front,
    Back,
}

/// Grains that the workers of a node have not begun.
pub(super) struct Deque<C: Cpu> {
    /// See the module. Relaxed: it guards no data. The work is ordered by the beginning and the end of
    /// visits; between workers nothing is ordered.
    word: AtomicU64<C>,
}

impl<C: Cpu> Deque<C> {
    pub(super) const fn new(grains: &Grains) -> Self {
        Self { word: AtomicU64::new(pack(grains)) }
    }

    /// Takes grains from one side: `wanted` says how many, given the number there is. A rest below `min` is
    /// taken too.
    pub(super) fn take(&self, side: Side, wanted: impl Fn(u32) -> u32, min: u32) -> Option<Grains> {
        let cut = if side == Side::Front { cut_front } else { cut_back };
        let mut taken = None;
        // Asked once in each attempt: the answer of `wanted` may change.
        let rest_of = |word| {
            let (grains, mut rest) = cut(word, wanted(len(word)), min)?;
            if mutant!("deque.asked-twice") {
                rest = cut(word, wanted(len(word)), min)?.1;
            }
            taken = Some(grains);
            Some(rest)
        };
        self.word.update(Relaxed, Relaxed, rest_of).ok()?;
        taken
    }

    /// Takes the back half.
    fn steal(&self, min: u32) -> Option<Grains> {
        self.take(Side::Back, |have| have / 2, min)
    }

    /// Reserves the refill of this empty deque, until [`Deque::refill`]. False where another worker has it,
    /// or the deque is not empty.
    fn begin_refill(&self) -> bool {
        let is_free = |word| word != REFILLING || mutant!("deque.two-refill");
        self.word
            .update(Relaxed, Relaxed, |word| (len(word) == 0 && is_free(word)).then_some(REFILLING))
            .is_ok()
    }

    /// Stores the stolen grains, and ends the refill.
    fn refill(&self, grains: Grains) {
        debug_assert_eq!(self.word.load(Relaxed), REFILLING);
        self.word.store(pack(&grains), Relaxed);
    }

    /// Grains that have not begun; may be stale while others work.
    pub(super) fn rest(&self) -> Grains {
        unpack(self.word.load(Relaxed))
    }
}

/// Number of deques.
const DEQUES: u32 = 4;

/// The deques of a job.
pub(super) struct NodeDeques<C: Cpu> {
    /// The node of deque 0, which is the caller's.
    home: NodeId,
    /// 1 where all CPUs are on one node.
    used: u32,
    deques: [CacheAligned<Deque<C>>; DEQUES as usize],
}

impl<C: Cpu> NodeDeques<C> {
    /// All of `grains` in the deque of `home`.
    pub(super) fn new(grains: &Grains, home: NodeId, nr_nodes: u32) -> Self {
        let deques =
            core::array::from_fn(|index| CacheAligned(Deque::new(if index == 0 { grains } else { &(0..0) })));
        Self { home, used: if nr_nodes > 1 { DEQUES } else { 1 }, deques }
    }

    /// The deque of the workers on a node.
    pub(super) fn of_node(&self, node: NodeId) -> usize {
        (node.0.wrapping_sub(self.home.0) % self.used) as usize
    }

    /// The grains of each deque that have not begun; may be stale while others work.
    pub(super) fn rests(&self) -> impl Iterator<Item = Grains> {
        self.deques.iter().map(|deque| deque.rest())
    }

    /// The next chunk of a worker whose deque is `own`: `wanted` says how many grains, given the number there
    /// is. `None` where it finds none that has not begun.
    pub(super) fn next(
        &self,
        own: usize,
        side: Side,
        wanted: impl Fn(u32) -> u32,
        min: u32,
    ) -> Option<Grains> {
        let chunk = self.deques[own].take(side, &wanted, min);
        if chunk.is_some() || self.used == 1 { chunk } else { self.next_by_theft(own, wanted, min) }
    }

    /// Refills an empty deque with half of another one, and takes a chunk of that. While another worker
    /// refills it, takes a chunk of another deque. A worker that reads the deques between the two steps of a
    /// theft finds fewer grains than there are, and may leave early; no grain is lost by that.
    #[cold]
    fn next_by_theft(&self, own: usize, wanted: impl Fn(u32) -> u32, min: u32) -> Option<Grains> {
        let deque = &self.deques[own];
        while deque.begin_refill() {
            let stolen = self.others(own).find_map(|other| other.steal(min));
            let is_nothing = stolen.is_none();
            deque.refill(stolen.unwrap_or(0..0));
            if is_nothing {
                return None;
            }
            let chunk = deque.take(Side::Back, &wanted, min);
            if chunk.is_some() {
                return chunk;
            }
        }
        let chunk = deque.take(Side::Back, &wanted, min);
        chunk.or_else(|| self.others(own).find_map(|other| other.take(Side::Back, &wanted, min)))
    }

    fn others(&self, own: usize) -> impl Iterator<Item = &Deque<C>> {
        self.deques[..self.used as usize]
            .iter()
            .enumerate()
            .filter(move |(at, _)| *at != own)
            .map(|(_, deque)| &**deque)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/deque.rs"]
mod tests;
