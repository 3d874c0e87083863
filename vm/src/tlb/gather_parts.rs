//! An edit whose parts are done by several workers: one flush for all of them.
//!
//! ```text
//!   caller's gather ─ in_parts ─► GatherParts ─┬─ part: a worker sweeps, its own gather ──┐ joined:
//!        │                                     ├─ part ...                               ─┤ span, slots,
//!        │                                     └─ part ...                               ─┘ lists of frames
//!        ▼                                                                                    │
//!   detaches tables, flushes the span of all, then slots and lists are put, by all workers ◄──┘
//! ```
//!
//! A part frees nothing and flushes nothing: what it has unhooked is joined to the caller's gather when the
//! part ends, also where it panics. Frames that one entry alone mapped go as a list, by one store; those that
//! others may map too stay in their slots, *pending*, for the second pass: so the caller's gather has the
//! right to leave frames there before the parts begin. Where another edit of the space has it, there are no
//! parts.
//!
//! Parts take no part in protocol P8: the space's count of pending flushes is the caller's, raised before the
//! first part begins and lowered after the flush.

use super::edited::{Edited, joined};
use super::gather::Locks;
use super::{Gather, PendingFlush, Shootdown};
use crate::frame::{Memory, UnhookedLists};
use crate::machine::Machine;
use crate::sync::{Rcu, SpinLock, lockdep};
use crate::units::VpnRange;
use core::fmt;

/// What the parts of an edit are joined to.
pub(crate) struct GatherParts<'a, 'm, M: Machine> {
    memory: &'a Memory<'m, M>,
    rcu: &'a Rcu<'a, M::Cpu>,
    shootdown: &'a Shootdown<'a, M::Cpu>,
    pending: &'a PendingFlush<'a, M::Cpu>,
    joined: SpinLock<Joined, M::Cpu, { lockdep::GATHER.0 }>,
}

/// What parts that have ended have unhooked.
#[derive(Debug, Default)]
struct Joined {
    edited: Edited,
    deferred: VpnRange,
    lists: UnhookedLists,
    flushes: u64,
}

impl<'a, 'm, M: Machine> Gather<'a, 'm, M> {
    /// Runs `work`, which does parts of the edit, on this CPU and others. All have ended when it returns.
    /// [`put_deferred`](Gather::put_deferred) is called afterwards. `None`, and nothing is done, where
    /// another edit of the space leaves frames in their slots.
    #[cold]
    #[inline(never)]
    pub(crate) fn in_parts<R>(&mut self, work: impl FnOnce(&GatherParts<'a, 'm, M>) -> R) -> Option<R> {
        if self.deferral.is_none() {
            self.deferral = Some(self.pending.space().try_defer()?);
        }
        let &mut Self { memory, rcu, shootdown, pending, .. } = self;
        let joined = SpinLock::new(Joined::default());
        let parts = GatherParts { memory, rcu, shootdown, pending, joined };
        let joining = Joining { gather: self, parts };
        Some(work(&joining.parts))
    }
}

/// Hands what was joined to the gather, also where the work panics.
struct Joining<'g, 'a, 'm, M: Machine> {
    gather: &'g mut Gather<'a, 'm, M>,
    parts: GatherParts<'a, 'm, M>,
}

impl<M: Machine> Drop for Joining<'_, '_, '_, M> {
    fn drop(&mut self) {
        let Joined { edited, deferred, lists, flushes } = core::mem::take(self.parts.joined.get_mut());
        let gather = &mut *self.gather;
        if !mutant!("parts.hull-not-joined") {
            gather.edited.join(edited);
        }
        if !mutant!("parts.slots-not-joined") {
            gather.deferred = joined(gather.deferred, deferred);
        }
        gather.flushes += flushes;
        debug_assert!(gather.lists.is_empty(), "an edit is done in parts once");
        gather.lists = lists;
    }
}

impl<'a, 'm, M: Machine> GatherParts<'a, 'm, M> {
    /// Does a part of the edit: `edit` clears entries that no other part clears.
    pub fn part(&self, edit: impl FnOnce(&mut Gather<'a, 'm, M>)) {
        let &Self { memory, rcu, shootdown, pending, .. } = self;
        let mut part = EditPart { parts: self, gather: Gather::of_part(memory, rcu, shootdown, pending) };
        edit(&mut part.gather);
    }

    fn join(&self, part: &mut Gather<'_, '_, M>) {
        if mutant!("parts.flushed-each") {
            part.flush(Locks::None);
        }
        if mutant!("parts.freed-unflushed") {
            part.batch.free_after(self.memory, self.rcu, || ());
        }
        let mut all = self.joined.lock();
        if !all.lists.add(self.memory, &mut part.batch) {
            // Huge leaves that others have too: sweeps leave base pages that a list cannot hold in their
            // slots.
            drop(all);
            part.flush_now();
            all = self.joined.lock();
        }
        all.edited.join(core::mem::take(&mut part.edited));
        all.deferred = joined(all.deferred, core::mem::take(&mut part.deferred));
        all.flushes += core::mem::take(&mut part.flushes);
    }
}

/// A part under way.
struct EditPart<'p, 'a, 'm, M: Machine> {
    parts: &'p GatherParts<'a, 'm, M>,
    gather: Gather<'a, 'm, M>,
}

impl<M: Machine> Drop for EditPart<'_, '_, '_, M> {
    fn drop(&mut self) {
        self.parts.join(&mut self.gather);
    }
}

impl<M: Machine> fmt::Debug for GatherParts<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("parts of a gather")
    }
}
