//! The helper's loop: it looks for items to visit, and parks where there are none. It holds nothing meanwhile
//! that others wait for: only during visits, and where it is dismissed, it is expedited.

use super::Dispatch;
use super::expedited::Expedited;
use super::work_slot::{Visit, VisitEnd, WorkSlot};
use super::worker_slot::{BUSY, WorkerSlot};
use crate::machine::Cpu;
use crate::sync::atomic::{Ordering::*, fence};

impl<C: Cpu> Dispatch<'_, C> {
    /// Serves as the helper of this CPU. Returns when the helper is dismissed, or at once where the CPU has
    /// one. The thread stays on its CPU, and holds no lock.
    pub fn serve(&self) {
        let worker = self.workers.of(C::id());
        // Counted before other CPUs see the helper.
        self.unreserved.fetch_add(1, Relaxed);
        if worker.arrive() {
            Helper { dispatch: self, worker }.look_for_work();
        } else {
            self.unreserved.fetch_sub(1, Relaxed);
        }
    }
}

/// The helper of a CPU; departs when dropped, also where a visit unwinds.
struct Helper<'d, C: Cpu> {
    dispatch: &'d Dispatch<'d, C>,
    worker: &'d WorkerSlot<C>,
}

impl<C: Cpu> Helper<'_, C> {
    fn look_for_work(&self) {
        let mut polls = 0;
        while !self.worker.must_leave() {
            let visited = match self.worker.take_notification() {
                (false, _) => self.joinable().find_map(|slot| self.visit(slot)),
                (true, true) => self.visit_assigned(),
                (true, false) => None,
            };
            if visited.is_some() && mutant!("dispatch.notification-between-dropped") {
                self.worker.take_notification();
            }
            if visited.is_none() && polls >= self.dispatch.poll_limit.load(Relaxed) {
                polls = 0;
                self.park();
            } else {
                polls = if visited.is_none() { polls + 1 } else { 0 };
            }
            if visited != Some(VisitEnd::Exhausted) {
                C::yield_now();
            }
        }
    }

    /// Joins the assigned item, as a reserved worker.
    fn join_assigned(&self) -> Option<Visit<'_, C>> {
        self.dispatch.slot(self.worker.assigned.load(Relaxed)).join(self.worker, true)
    }

    fn visit_assigned(&self) -> Option<VisitEnd> {
        let visit = self.join_assigned()?;
        let progress = visit.item.work.visit(&visit);
        if mutant!("dispatch.notification-dropped") {
            self.worker.take_notification();
        }
        if progress == VisitEnd::Paused {
            // Visits again without a notification of the caller's.
            self.worker.notify();
        }
        Some(progress)
    }

    /// The slots whose items the helper may join: none while its note of a broken-off chunk is not read.
    fn joinable(&self) -> impl Iterator<Item = &WorkSlot<C>> {
        let node = self.worker.node;
        let slots = self.dispatch.slots_in_use(node).filter(move |_| self.dispatch.has_room_racy(node));
        let (cpu, is_free) = (self.worker.cpu, self.worker.note.is_free());
        let slots = slots.filter(move |_| is_free);
        slots.filter(move |slot| slot.joinable_from_racy().contains(node) && slot.is_for_racy(cpu))
    }

    /// Visits the item of `slot`, unless there is no room any more, or the helper is reserved.
    fn visit(&self, slot: &WorkSlot<C>) -> Option<VisitEnd> {
        let Self { dispatch, worker } = *self;
        // From before the visit begins until after it has ended: its caller waits for it.
        let is_expedited = !mutant!("dispatch.visit-not-expedited");
        let _expedited = is_expedited.then(|| Expedited::<C>::new(worker.cpu));
        let at_work = dispatch.begin_work(worker, BUSY).then(|| AtWork { dispatch, worker })?;
        let mut visit = slot.join(worker, false)?;
        // Dropped before the visit, so that the helper is idle when its caller learns that it has left.
        let _at_work = at_work;
        // This item may have room for more, and so may another one, for which this helper was notified.
        if !mutant!("dispatch.notify-on-skipped") {
            dispatch.notify_for_published(worker.cpu);
        }
        let progress = visit.item.work.visit(&visit);
        visit.is_drained = progress == VisitEnd::Exhausted;
        Some(progress)
    }

    /// Sleeps until the helper is notified or has to leave, unless there is an item to join.
    fn park(&self) {
        self.dispatch.parked.insert(self.worker.cpu);
        // Pairs with the fence of `publish`: either that sees this worker as parked, or this sees the item.
        fence::<C>(SeqCst);
        let looks = !mutant!("dispatch.park-without-look");
        if self.worker.is_reserved() || !looks || self.joinable().next().is_none() {
            self.worker.park();
        }
        self.dispatch.parked.remove(self.worker.cpu);
    }
}

/// A helper at work on an item that it found by polling; idle again when this is dropped.
struct AtWork<'d, C: Cpu> {
    dispatch: &'d Dispatch<'d, C>,
    worker: &'d WorkerSlot<C>,
}

impl<C: Cpu> Drop for AtWork<'_, C> {
    fn drop(&mut self) {
        self.worker.end();
        self.dispatch.end_work(self.worker);
    }
}

impl<C: Cpu> Drop for Helper<'_, C> {
    fn drop(&mut self) {
        let Self { dispatch, worker } = *self;
        // From here on the helper cannot be reserved, and `notify` returns false for it.
        if worker.begin_departure()
            && !mutant!("dispatch.detach-skipped")
            && let Some(visit) = self.join_assigned()
        {
            visit.item.work.detach(worker.cpu);
        }
        dispatch.unreserved.fetch_sub(1, Relaxed);
        // The helper may have been notified for an item, or leaves room in one.
        dispatch.notify_for_published(worker.cpu);
        worker.depart();
    }
}
