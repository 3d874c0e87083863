//! Writing back: dirty pages of objects go to where they came from.
//!
//! ```text
//!   a batch of dirty pages: marked as being written, and clean
//!     ─► each view: take the right to write from their entries, flush     a store makes them dirty again
//!     ─► each page: the pager writes it (asked again where that takes longer)
//!     ─► written: the mark goes; not written: dirty again, and an error is counted
//! ```
//!
//! An entry of such an object lets stores through only while its page is dirty: a fault asks that under the
//! lock of the entry's table. So a fault that has found the page dirty before its mark went has its entry
//! there when the sweep takes that lock; and one that comes later finds it clean, and asks the pager again.
//! What was stored through an entry that another call is clearing is there once that call has flushed, which
//! is waited for.

use crate::frame::{FrameMeta, Kind};
use crate::machine::Machine;
use crate::object::{
    BATCH, DirtyBatch, DirtyPage, ErrorCursor, PageAnswer, PageContents, PageWait, PagerKey, ViewPlace,
};
use crate::space::{AddressSpace, ObjectError, ObjectHandle, ObjectReach, SpaceId, Vm};
use crate::sync::{Progress, Retry};
use crate::units::{Level, PAGE_SIZE, Pfn, VpnRange};
use crate::vma::ObjectId;
use core::convert::Infallible;
use core::num::NonZeroU64;
use core::ops::{Deref, Range};

/// What came of writing back a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[must_use = "pages that were not written are dirty still"]
#[non_exhaustive]
pub struct WrittenBack {
    /// Pages that were written.
    pub pages: u64,
    /// Pages that could not be written: they are dirty still.
    pub failed: u64,
    /// Views whose spaces were not found: pages that they show were written, and are dirty still.
    pub missing: u64,
}

/// What has come of the wish to store to a page.
pub(in crate::space) enum MadeDirty<'m, M: Machine> {
    /// It is dirty, or nothing follows that.
    Dirty,
    /// The object does not have it.
    Absent,
    /// The pager refuses.
    Refused,
    /// The pager is to be asked again after this wait.
    NotYet(PageWait<'m, M::Cpu>),
}

const PAGE: u64 = PAGE_SIZE as u64;

impl<'v, M: Machine> ObjectHandle<'v, M> {
    /// Writes back the dirty pages of a range of bytes, and waits until they, and those that others are
    /// writing, are written. Each page at most twice, however often it is stored to meanwhile. Spaces are
    /// found by `hold`, as by [`Vm::rmap_walk`].
    ///
    /// Called with no lock held and outside any read section, by a caller that may have to end a space; may
    /// sleep. Locks the object for a moment for each batch of pages, and one range of one space at a time, to
    /// read.
    ///
    /// # Errors
    /// [`ObjectError::Stalled`].
    pub fn write_back<S>(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        hold: impl Fn(SpaceId) -> Option<S>,
    ) -> Result<WrittenBack, ObjectError>
    where
        S: Deref<Target = AddressSpace<'v, M>>,
    {
        let end = offset_bytes.saturating_add(len_bytes).div_ceil(PAGE);
        self.vm.write_object_back(self.id(), offset_bytes / PAGE..end, hold)
    }

    /// As [`write_back`](Self::write_back), of the whole object; and reports, once for each cursor, that
    /// writing back has failed since the last report, whatever call has met that. (Linux: `fsync`.)
    ///
    /// # Errors
    /// [`ObjectError::Io`] for such a failure; and as of that.
    pub fn sync<S>(
        &self,
        cursor: &mut ErrorCursor,
        hold: impl Fn(SpaceId) -> Option<S>,
    ) -> Result<WrittenBack, ObjectError>
    where
        S: Deref<Target = AddressSpace<'v, M>>,
    {
        let written = self.write_back(0, u64::MAX, hold)?;
        let reading = self.vm.rcu.read();
        let object = self.vm.object(self.id(), &reading);
        if object.is_some_and(|object| object.errors().report(cursor)) {
            return Err(ObjectError::Io);
        }
        Ok(written)
    }

    /// A cursor for the errors of writing back, which an open handle of the embedder's keeps.
    pub fn error_cursor(&self) -> ErrorCursor {
        let reading = self.vm.rcu.read();
        self.vm
            .object(self.id(), &reading)
            .map_or_else(ErrorCursor::default, |object| object.errors().cursor())
    }
}

impl<M: Machine> AddressSpace<'_, M> {
    /// Takes the right to write from the entries of pages of an object in the mappings of one view. What was
    /// stored through them before is in the pages when this returns.
    fn protect_object_pages(&self, (object, place): (ObjectId, ViewPlace), pages: &Range<u64>) {
        let Self { mappings, entries, .. } = self;
        let range = place.vpns_of(pages);
        let guard = mappings.read(range);
        let token = guard.token();
        let _no_holes = mappings.each_part_in(token, range, |part, vma| {
            let is_of_view = vma.backing.object() == Some(object) && vma.view_place(self.id()) == place;
            if is_of_view && !vma.is_private() && !mutant!("write-back.entries-kept-writable") {
                entries.edit(token, part, |table, slot, page, gather| {
                    if table.level() == Level::Pte && table.take_write(slot) {
                        gather.need_flush(VpnRange::new(page, page.add(1)));
                    }
                });
            }
            Ok::<(), Infallible>(())
        });
        // An entry that another call has cleared, or protected, may be in use until that has flushed.
        if entries.tlb.is_flush_pending() && !mutant!("write-back.pending-flush-ignored") {
            drop(guard);
            drop(mappings.read_after_writers(range));
        }
    }
}

impl<'v, M: Machine> Vm<'v, M> {
    /// Makes a page of an object dirty, if that is written back. The pager is asked, unless the page is
    /// dirty. Called with no lock held and outside any read section.
    pub(in crate::space) fn make_dirty(&self, object: NonZeroU64, page: u64) -> MadeDirty<'_, M> {
        let key = {
            let reading = self.rcu.read();
            let Some(found) = self.objects.get(object, &reading) else { return MadeDirty::Absent };
            let Some(key) = found.pager_key().filter(|_| found.is_tracked()) else { return MadeDirty::Dirty };
            if found.lookup(&self.memory, page, &reading).is_none() {
                return MadeDirty::Absent;
            }
            if found.is_dirty(&self.memory, page, &reading) {
                return MadeDirty::Dirty;
            }
            key
        };
        let (answer, wait) = self.objects.ask_to_store(key, page);
        match answer {
            PageAnswer::NotReady => MadeDirty::NotYet(wait),
            PageAnswer::Ready => {
                let reading = self.rcu.read();
                let found = self.objects.get(object, &reading);
                let is_marked = found.is_some_and(|object| object.mark_dirty(&self.memory, page, &reading));
                if is_marked { MadeDirty::Dirty } else { MadeDirty::Absent }
            }
            PageAnswer::Beyond | PageAnswer::Error => MadeDirty::Refused,
        }
    }

    /// Notes that bytes of a frame were stored by other means than an entry: a page that is written back is
    /// dirty, though writing may have begun in between. The caller has a reference.
    pub(in crate::space) fn note_stored(&self, pfn: Pfn) {
        let meta = self.memory.meta(pfn).filter(|meta| meta.state().kind() == Kind::Object);
        let Some((object, page)) = meta.map(FrameMeta::owner) else { return };
        let Some(object) = NonZeroU64::new(object) else { return };
        let reading = self.rcu.read();
        if let Some(found) = self.objects.get(object, &reading).filter(|found| found.is_tracked())
            && !found.is_dirty(&self.memory, page, &reading)
            && !mutant!("write-back.store-not-noted")
        {
            found.mark_dirty(&self.memory, page, &reading);
        }
    }

    /// Writes back dirty pages of an object that the caller keeps.
    pub(super) fn write_object_back<S>(
        &self,
        object: ObjectId,
        pages: Range<u64>,
        hold: impl Fn(SpaceId) -> Option<S>,
    ) -> Result<WrittenBack, ObjectError>
    where
        S: Deref<Target = AddressSpace<'v, M>>,
    {
        let mut done = WrittenBack::default();
        let reading = self.rcu.read();
        let found = self.object(object, &reading).filter(|object| object.is_tracked());
        let key = found.and_then(|object| object.pager_key());
        drop(reading);
        let Some(key) = key else { return Ok(done) };
        let passed = self.write_dirty_pages((object, key), &pages, &hold, &mut done)?;
        self.wait_for_writers((object, key), &pages)?;
        // Another writer had these, and they were stored to since. One that has them by now has begun after
        // this call, and writes what they have.
        if let Some(passed) = passed.filter(|_| !mutant!("write-back.passed-pages-forgotten")) {
            let _later = self.write_dirty_pages((object, key), &passed, &hold, &mut done)?;
            self.wait_for_writers((object, key), &passed)?;
        }
        Ok(done)
    }

    /// Writes back the dirty pages of a range that no other caller is writing. Returns the range of those
    /// that one is.
    fn write_dirty_pages<S>(
        &self,
        (object, key): (ObjectId, PagerKey),
        pages: &Range<u64>,
        hold: &impl Fn(SpaceId) -> Option<S>,
        done: &mut WrittenBack,
    ) -> Result<Option<Range<u64>>, ObjectError>
    where
        S: Deref<Target = AddressSpace<'v, M>>,
    {
        let (mut rest, mut passed) = (pages.clone(), None);
        loop {
            let reading = self.rcu.read();
            let Some(found) = self.object(object, &reading) else { break };
            let batch = found.begin_writing(&self.memory, &rest, &reading);
            drop(reading);
            if let Some(more) = batch.passed.clone() {
                let start = passed.take().map_or(more.start, |passed: Range<u64>| passed.start);
                passed = Some(start..more.end);
            }
            let Some(span) = batch.span() else { break };
            rest.start = batch.next;
            let mut writing = Writing { vm: self, object, key, batch, ended: 0 };
            let reach = self.visit_views(object, &span, hold, |space, place, pages| {
                space.protect_object_pages((object, place), pages);
            });
            done.missing += reach.missing;
            writing.run(reach, done)?;
        }
        Ok(passed)
    }

    /// Waits until no page of the range is being written that another caller has begun before.
    pub(super) fn wait_for_writers(
        &self,
        (object, key): (ObjectId, PagerKey),
        pages: &Range<u64>,
    ) -> Result<(), ObjectError> {
        let (mut rest, mut retry) = (pages.clone(), Retry::new("write-back-of-others"));
        loop {
            let reading = self.rcu.read();
            let Some(found) = self.object(object, &reading) else { return Ok(()) };
            let Some(page) = found.first_writing(&self.memory, &rest, &reading) else { return Ok(()) };
            drop(reading);
            let wait = self.objects.look_at_page(key, page);
            let reading = self.rcu.read();
            let found = self.object(object, &reading);
            let is_writing = found.is_some_and(|object| object.is_writing(&self.memory, page, &reading));
            drop(reading);
            if !is_writing {
                // Each page is waited for once.
                rest.start = page + 1;
                continue;
            }
            let own = if wait.wait() { Progress::Observed } else { Progress::None };
            retry.again::<M::Cpu>(own).map_err(|_| ObjectError::Stalled)?;
        }
    }
}

/// Pages that are being written by this call. Those that it has not come to stay dirty, where a pager or a
/// finder panics.
struct Writing<'a, 'v, M: Machine> {
    vm: &'a Vm<'v, M>,
    object: ObjectId,
    key: PagerKey,
    batch: DirtyBatch<'a, M>,
    /// The first of the pages, so many, are done.
    ended: usize,
}

impl<'a, M: Machine> Writing<'a, '_, M> {
    /// Has the pager write the pages; those that it takes longer for are waited for when all have begun.
    fn run(&mut self, reach: ObjectReach, done: &mut WrittenBack) -> Result<(), ObjectError> {
        let mut asked = [const { None }; BATCH];
        for (place, dirty) in asked.iter_mut().zip(self.batch.pages()) {
            *place = Some(self.ask(dirty, false));
        }
        let mut result = Ok(());
        for asked in asked.into_iter().flatten() {
            let Some(dirty) = self.batch.pages().nth(self.ended) else { break };
            let answer = self.last_answer(dirty, asked);
            let is_written = answer == PageAnswer::Ready;
            done.pages += u64::from(is_written);
            done.failed += u64::from(!is_written);
            if answer == PageAnswer::NotReady {
                result = Err(ObjectError::Stalled);
            } else if !is_written {
                self.count_error();
            }
            self.end(dirty, is_written && reach.missing == 0);
            self.ended += 1;
        }
        result
    }

    /// Asks the pager to write a page. What it has begun, it is asked for, though the page lies beyond the
    /// end by now: its bytes may be under way.
    fn ask(&self, dirty: &DirtyPage<'_, M>, has_begun: bool) -> (PageAnswer, PageWait<'a, M::Cpu>) {
        let reading = self.vm.rcu.read();
        let end = self.vm.object(self.object, &reading).map_or(0, |object| object.len_bytes());
        drop(reading);
        let len = end.saturating_sub(dirty.page * PAGE).min(PAGE) as usize;
        if len == 0 && (!has_begun || mutant!("write-back.begun-forgotten")) {
            // Truncated meanwhile: nothing is to be written.
            return (PageAnswer::Ready, self.vm.objects.look_at_page(self.key, dirty.page));
        }
        let contents = PageContents::new(&dirty.frame, len);
        self.vm.objects.ask_to_write_back(self.key, dirty.page, &contents)
    }

    /// Waits for the answer of the pager about a page, if it is not there yet. `NotReady` where it does not
    /// come.
    fn last_answer(
        &self,
        dirty: &DirtyPage<'_, M>,
        mut asked: (PageAnswer, PageWait<'a, M::Cpu>),
    ) -> PageAnswer {
        let mut retry = Retry::new("write-back");
        loop {
            let (answer, wait) = asked;
            if answer != PageAnswer::NotReady {
                return answer;
            }
            let own = if wait.wait() { Progress::Observed } else { Progress::None };
            if retry.again::<M::Cpu>(own).is_err() {
                return PageAnswer::NotReady;
            }
            asked = self.ask(dirty, true);
        }
    }

    fn count_error(&self) {
        let reading = self.vm.rcu.read();
        if let Some(object) = self.vm.object(self.object, &reading) {
            object.errors().count();
        }
    }

    /// Ends the writing of a page, and wakes the callers that wait for that.
    fn end(&self, dirty: &DirtyPage<'_, M>, is_clean: bool) {
        let reading = self.vm.rcu.read();
        if let Some(object) = self.vm.object(self.object, &reading) {
            object.end_writing(&self.vm.memory, dirty, is_clean, &reading);
        }
        drop(reading);
        self.vm.objects.page_ready(self.key, dirty.page);
    }
}

impl<M: Machine> Drop for Writing<'_, '_, M> {
    fn drop(&mut self) {
        if !mutant!("write-back.panic-leaves-writing") {
            self.batch.pages().skip(self.ended).for_each(|dirty| self.end(dirty, false));
        }
    }
}
