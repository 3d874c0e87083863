//! What keeps an object: mappings, which its views count, and handles; and walks over its views.
//!
//! ```text
//!   map     the space's lock held ─► the view: found or made ─► counted ─► the mapping is published
//!   unmap   the mapping is gone ─► leave: noted in the view ─► cleared, flushed ─► counted: view, object
//! ```
//!
//! A mapping is counted before it is published and until its entries are flushed. So an entry that maps a
//! page of an object lies in one of its views, whatever is under way.

use super::Objects;
use super::shared::LeftOver;
use super::views::{RemovedView, ViewPlace};
use crate::frame::Memory;
use crate::machine::Machine;
use crate::sync::Rcu;
use core::num::NonZeroU64;
use core::ops::Range;

/// The views of a space whose pages are to be counted as gone after a flush: the number of the first. The
/// holder of the space's lock owns it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeavingViews(pub u64);

impl<'m, M: Machine> Objects<'m, M> {
    /// Counts one handle more of an object. `false` where it is dead.
    pub(crate) fn try_hold(&self, rcu: &Rcu<M::Cpu>, number: NonZeroU64) -> bool {
        let reading = rcu.read();
        let Some(object) = self.get(number, &reading) else { return false };
        let mut counts = object.counts.lock();
        let is_alive = counts.mapped > 0;
        counts.mapped += u64::from(is_alive);
        is_alive
    }

    /// Counts one handle fewer. With the last, where nothing is mapped, the object dies: its frames are given
    /// back now, its index and its record after a grace period. May wait for readers.
    pub(crate) fn release(&self, memory: &Memory<'m, M>, rcu: &Rcu<M::Cpu>, number: NonZeroU64) {
        let reading = rcu.read();
        let object = self.get(number, &reading);
        let left = object.and_then(|object| object.unmapped(&mut object.counts.lock(), memory, 1, &reading));
        drop(reading);
        self.end(memory, rcu, number, left);
    }

    /// Counts pages of an object that is not dead, which a mapping at this place is about to cover: the
    /// space is locked to write. Where entries are to be copied there, as by a fork, `source` is the view
    /// that has them. `false` where there is no memory.
    pub(crate) fn map(
        &self,
        memory: &Memory<'m, M>,
        rcu: &Rcu<M::Cpu>,
        number: NonZeroU64,
        (place, pages): (ViewPlace, Range<u64>),
        source: Option<ViewPlace>,
    ) -> bool {
        let count = |made: Option<NonZeroU64>| {
            let reading = rcu.read();
            let Some(object) = self.get(number, &reading) else { return false };
            let mut counts = object.counts.lock();
            match (made, self.views.find(number, place, &reading)) {
                (Some(made), _) => {
                    let source = source.and_then(|source| self.views.find(number, source, &reading));
                    self.views.link(&mut counts.views, made, source.map(|(number, _)| number), &reading);
                }
                (None, Some((_, found))) => found.add(&pages),
                (None, None) => return false,
            }
            counts.mapped += pages.end - pages.start;
            true
        };
        count(None)
            || self.views.insert(memory, (number, place), &pages).is_some_and(|made| count(Some(made)))
    }

    /// Counts pages that a mapping covered as gone. With the last of a view it goes, with the last of an
    /// object that dies, as of [`release`](Self::release).
    pub(crate) fn unmap(
        &self,
        memory: &Memory<'m, M>,
        rcu: &Rcu<M::Cpu>,
        number: NonZeroU64,
        (place, pages): (ViewPlace, u64),
    ) {
        let reading = rcu.read();
        let Some(object) = self.get(number, &reading) else { return };
        let mut counts = object.counts.lock();
        let emptied = self.views.find(number, place, &reading).filter(|(_, view)| view.take(pages));
        let gone = emptied.and_then(|(view, _)| self.views.unlink(&mut counts.views, view, &reading));
        let left = object.unmapped(&mut counts, memory, pages, &reading);
        drop(counts);
        drop(reading);
        self.retire(memory, rcu, gone);
        self.end(memory, rcu, number, left);
    }

    /// Notes that pages which a mapping covered are to be counted as gone by [`unmap_leaving`], after a
    /// flush. The caller has the space's lock, and `leaving` with it, which becomes what this returns.
    ///
    /// [`unmap_leaving`]: Self::unmap_leaving
    pub(crate) fn leave(
        &self,
        rcu: &Rcu<M::Cpu>,
        number: NonZeroU64,
        (place, pages): (ViewPlace, u64),
        leaving: LeavingViews,
    ) -> LeavingViews {
        let reading = rcu.read();
        match self.views.find(number, place, &reading) {
            Some((view_number, view)) if view.note_leaving(pages) => {
                view.set_next_leaving(leaving.0);
                LeavingViews(view_number.get())
            }
            _ => leaving,
        }
    }

    /// Counts the pages that were to leave as gone.
    pub(crate) fn unmap_leaving(&self, memory: &Memory<'m, M>, rcu: &Rcu<M::Cpu>, leaving: LeavingViews) {
        let mut next = leaving.0;
        while next != 0 {
            let reading = rcu.read();
            let Some(view) = self.views.get(next, &reading) else { return };
            let (place, (object, pages, after)) = (view.place(), view.take_leaving());
            drop(reading);
            self.unmap(memory, rcu, object, (place, pages));
            next = after;
        }
    }

    /// Goes on to the next view of an object that a caller keeps: where it is, and its hull. The walk stays
    /// there; `at` is the view that it was at, and `None` at first. It is [ended](Self::end_walk) at last.
    pub(crate) fn next_view(
        &self,
        memory: &Memory<'m, M>,
        rcu: &Rcu<M::Cpu>,
        number: NonZeroU64,
        at: &mut Option<NonZeroU64>,
    ) -> Option<(ViewPlace, Range<u64>)> {
        let reading = rcu.read();
        let object = self.get(number, &reading)?;
        let mut counts = object.counts.lock();
        let next = self.views.after(&counts.views, *at, &reading);
        if let Some((_, view)) = next {
            view.add_count(1);
        }
        let left = at.and_then(|at| Some((at, self.views.get(at.get(), &reading)?)));
        let emptied = left.filter(|(_, view)| view.take(1));
        let gone = emptied.and_then(|(view, _)| self.views.unlink(&mut counts.views, view, &reading));
        drop(counts);
        *at = next.map(|(number, _)| number);
        let found = next.map(|(_, view)| (view.place(), view.hull()));
        drop(reading);
        self.retire(memory, rcu, gone);
        found
    }

    /// Ends a walk that is at a view.
    pub(crate) fn end_walk(
        &self,
        memory: &Memory<'m, M>,
        rcu: &Rcu<M::Cpu>,
        number: NonZeroU64,
        at: NonZeroU64,
    ) {
        let reading = rcu.read();
        let Some(object) = self.get(number, &reading) else { return };
        let mut counts = object.counts.lock();
        let emptied = self.views.get(at.get(), &reading).is_some_and(|view| view.take(1));
        let gone = if emptied { self.views.unlink(&mut counts.views, at, &reading) } else { None };
        drop(counts);
        drop(reading);
        self.retire(memory, rcu, gone);
    }

    fn retire(&self, memory: &Memory<'m, M>, rcu: &Rcu<M::Cpu>, view: Option<RemovedView<'_, 'm, M>>) {
        if let Some(view) = view {
            view.retire(memory, rcu);
        }
    }

    fn end(
        &self,
        memory: &Memory<'m, M>,
        rcu: &Rcu<M::Cpu>,
        number: NonZeroU64,
        left: Option<LeftOver<'m, M>>,
    ) {
        if let Some(left) = left {
            super::page_index::give_back(left.frames, rcu);
            drop(left.reserve);
            self.registry.remove(memory, rcu, number);
        }
    }
}
