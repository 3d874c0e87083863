//! The shares of a job, one for each node (or a few, where there are more than four), and how a worker comes
//! by its next chunk.
//!
//! All of a job begins in the share of the caller's node, which is the only one where there is one node. Who
//! finds the share of its own node empty steals half of another's and puts it there, for all who are on this
//! node:
//!
//! ```text
//!   start    node 0 |0 1 2 3 4 5 6 7 8 9 a b|   node 1 |           |
//!   a thief  node 0 |0 1 2 3 4 5|               node 1 |6 7 8 9 a b|   next chunk of node 1's workers: b, a, ...
//! ```

use super::share::{Grains, Share};
use crate::machine::Cpu;
use crate::units::NodeId;

/// Shares of a job, where there are several nodes.
const SHARES: usize = 4;

/// From which end a worker takes: so that the caller and the first helper each work on neighbouring pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Front,
    Back,
}

/// See the module.
pub(super) struct Shares<'a, C: Cpu> {
    /// That of the caller's node, share 0.
    pub(super) first: &'a Share<C>,
    /// Where there are several nodes.
    pub(super) others: Option<&'a Others<C>>,
}

/// The shares of the nodes behind the caller's, which is `home`.
pub(super) struct Others<C: Cpu> {
    home: NodeId,
    shares: [Apart<C>; SHARES - 1],
}

/// A share on a line of its own.
#[repr(align(64))]
struct Apart<C: Cpu>(Share<C>);

impl<C: Cpu> Others<C> {
    pub(super) fn new(home: NodeId) -> Self {
        Self { home, shares: [const { Apart(Share::of(&(0..0))) }; SHARES - 1] }
    }
}

impl<'a, C: Cpu> Shares<'a, C> {
    /// The share of the workers on a node; `node` is asked where there are several.
    #[inline]
    pub(super) fn of_node(&self, node: impl FnOnce() -> NodeId) -> usize {
        self.others.map_or(0, |others| node().0.wrapping_sub(others.home.0) as usize % SHARES)
    }

    /// One of them, by number.
    #[inline]
    fn share(&self, number: usize) -> &'a Share<C> {
        match (number, self.others) {
            (1.., Some(others)) => &others.shares[number - 1].0,
            _ => self.first,
        }
    }

    /// What is not yet begun of a share; stale at once while others work.
    #[inline]
    pub(super) fn rest(&self, share: usize) -> Grains {
        self.share(share).rest()
    }

    /// As [`Shares::rest`], of each.
    pub(super) fn rests(&self) -> impl Iterator<Item = Grains> + use<'a, C> {
        let others = self.others.into_iter().flat_map(|others| &others.shares);
        core::iter::once(self.first).chain(others.map(|apart| &apart.0)).map(Share::rest)
    }

    /// The next chunk of a worker whose share is `own`: as many grains as `wanted` makes of what there is.
    /// `None` where it finds nothing that is not begun.
    #[inline]
    pub(super) fn next(
        &self,
        own: usize,
        side: Side,
        wanted: impl Fn(u32) -> u32,
        least: u32,
    ) -> Option<Grains> {
        let share = self.share(own);
        let chunk = match side {
            Side::Front => share.take(&wanted, least),
            Side::Back => share.take_back(&wanted, least),
        };
        if chunk.is_some() || self.others.is_none() { chunk } else { self.steal(own, wanted, least) }
    }

    /// Fills an empty share with half of another, and takes a chunk of that. While somebody else does, takes
    /// a chunk of another's. Who looks around between the two steps of a theft finds less than there is, and
    /// leaves early; nothing is lost by that.
    #[cold]
    fn steal(&self, own: usize, wanted: impl Fn(u32) -> u32, least: u32) -> Option<Grains> {
        let share = self.share(own);
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
        (0..SHARES).filter(move |&other| other != own).map(|other| self.share(other))
    }
}
