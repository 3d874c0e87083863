//! The shares of a job, one for each node (or a few, where there are more than four), and how a worker comes by its next chunk.
//!
//! All of a job begins in the share of the caller's node. Who finds the share of its own node empty steals half of another's and puts it
//! there, for all who are on this node:
//!
//! ```text
//!   start    node 0 |0 1 2 3 4 5 6 7 8 9 a b|   node 1 |           |
//!   a thief  node 0 |0 1 2 3 4 5|               node 1 |6 7 8 9 a b|   next chunk of node 1's workers: b, a, ...
//! ```

use super::share::{Grains, Share};
use crate::machine::Cpu;
use crate::units::NodeId;

/// Shares of a job.
const SHARES: usize = 4;

/// From which end a worker takes: so that the caller and the first helper each work on neighbouring pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Front,
    Back,
}

/// See the module.
pub(super) struct Shares<C: Cpu> {
    shares: [Share<C>; SHARES],
    /// Whether there are several nodes. Where there are not, nobody looks at other shares.
    are_several: bool,
}

impl<C: Cpu> Shares<C> {
    #[inline]
    pub(super) fn new(own: usize, rest: &Grains, are_several: bool) -> Self {
        let share = |number| Share::of(&if number == own { rest.clone() } else { 0..0 });
        Self { shares: [share(0), share(1), share(2), share(3)], are_several }
    }

    /// The share of the workers on `node`.
    pub(super) const fn of_node(node: NodeId) -> usize {
        node.0 as usize % SHARES
    }

    /// What is not yet begun of one share; stale at once while others work.
    #[inline]
    pub(super) fn rest(&self, share: usize) -> Grains {
        self.shares[share].rest()
    }

    /// As [`Shares::rest`], of each.
    pub(super) fn rests(&self) -> impl Iterator<Item = Grains> {
        self.shares.iter().map(Share::rest)
    }

    /// Takes all of one share, where nobody else works, nor ever has.
    #[inline]
    pub(super) fn take_all(&self, share: usize) -> Grains {
        self.shares[share].take_all()
    }

    /// The next chunk of a worker whose share is `own`: as many grains as `wanted` makes of what there is. `None` where it finds nothing
    /// that is not begun.
    #[inline]
    pub(super) fn next(
        &self,
        own: usize,
        side: Side,
        wanted: impl Fn(u32) -> u32,
        least: u32,
    ) -> Option<Grains> {
        let share = &self.shares[own];
        let chunk = match side {
            Side::Front => share.take(&wanted, least),
            Side::Back => share.take_back(&wanted, least),
        };
        if chunk.is_some() || !self.are_several { chunk } else { self.steal(own, wanted, least) }
    }

    /// Fills an empty share with half of another, and takes a chunk of that. While somebody else does, takes a chunk of another's. Who
    /// looks around between the two steps of a theft finds less than there is, and leaves early; nothing is lost by that.
    #[cold]
    fn steal(&self, own: usize, wanted: impl Fn(u32) -> u32, least: u32) -> Option<Grains> {
        let share = &self.shares[own];
        while share.begin_filling() {
            let stolen = self.others(own).find_map(|other| other.steal(least));
            let is_nothing = stolen.is_none();
            share.fill(stolen.unwrap_or(0..0));
            if is_nothing {
                return None;
            }
            let chunk = share.take_back(&wanted, least);
            if chunk.is_some() {
                return chunk;
            }
        }
        let chunk = share.take_back(&wanted, least);
        chunk.or_else(|| self.others(own).find_map(|other| other.take_back(&wanted, least)))
    }

    fn others(&self, own: usize) -> impl Iterator<Item = &Share<C>> {
        (0..SHARES).filter(move |&other| other != own).map(|other| &self.shares[other])
    }
}
