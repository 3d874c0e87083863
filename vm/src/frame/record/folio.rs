//! Records of a folio of user memory that huge entries map.
//!
//! Only the record of the first frame is written; those of the others stay as they were in the folio when
//! it was free: zero, or *cached*. No entry and no walk leads to them, until the folio is split. An mTHP
//! folio is split from the start: no entry maps more than a frame of it. `shared_folio` counts the
//! entries.

use super::{AnonKey, FrameMeta, FrameState, Kind};
use crate::machine::Cpu;

impl<C: Cpu> FrameMeta<C> {
    /// Puts a folio that was just taken to use as exclusive user memory that one entry is going to map: that
    /// of the pages from the one of `key` on, if that is one of a space's.
    pub(in crate::frame) fn become_mapped_folio(&self, key: Option<AnonKey>) {
        self.set_anon_key(key);
        self.set_mapcount(1);
        let done = self.step(|state| state.becomes(Kind::User));
        debug_assert!(done.is_some(), "a folio is put to use twice");
    }

    /// Makes the first frame of a folio one of its own. The caller has an entry of the folio, or had it and
    /// holds the lock of its table; it is the only one that splits the folio, and writes the other records
    /// next, or before. Returns the state of the first frame.
    ///
    /// A read-modify-write: a walker with an old entry of this frame may be raising the refcount.
    pub(in crate::frame) fn split_first(&self) -> FrameState {
        let split = self.step_shared(FrameState::split);
        split.expect("what is split is a folio of user memory")
    }

    /// As [`split_first`](Self::split_first), of a folio of an object.
    pub(in crate::frame) fn split_first_of_object(&self) {
        let split = self.step_shared(FrameState::split_of_object);
        debug_assert!(split.is_some(), "what is split is a folio of an object");
    }

    /// As [`become_part`](Self::become_part), of a folio of an object. `owner`: the object, and the page of
    /// this frame there.
    pub(in crate::frame) fn become_part_of_object(&self, folio: FrameState, leaves: u32, owner: (u64, u64)) {
        debug_assert!(self.state().may_lie_inside(), "the record of a frame inside a folio");
        self.set_owner(owner.0, owner.1);
        self.set_mapcount(leaves);
        // Release: a getter that sees the new kind sees the mapcount and the owner.
        self.step(|_| Some(FrameState::part_of_object(folio, leaves > 0)));
    }

    /// Marks a folio of the hugetlb pool as one that goes back to be kept for the entry that mapped it.
    /// `false` where there is another reference, or it is not *exclusive*. A read-modify-write, after the
    /// entry was replaced: a pin without a lock has its reference before it, which refuses this, or finds the
    /// entry changed.
    pub(in crate::frame) fn begin_restore(&self) -> bool {
        self.step_shared(FrameState::restoring).is_some()
    }

    /// Puts the entry's reference to a folio that [restores](Self::begin_restore). Returns what is left.
    pub(in crate::frame) fn put_restoring(&self) -> Option<FrameState> {
        self.step_shared(FrameState::put_restoring)
    }

    /// Makes the first frame of a folio that was just taken exclusive user memory that one entry is going to
    /// map, of its own: the other records are written next ([`become_part`](Self::become_part)).
    pub(in crate::frame) fn become_first_part(&self, key: AnonKey) {
        debug_assert_eq!(self.state().kind(), Kind::Taken, "a folio is put to use twice");
        debug_assert_eq!((self.mapcount(), self.pincount()), (0, 0), "counts of a folio just taken");
        self.write_part(FrameState::USER_FRAME, 1, Some(key));
    }

    /// Makes another frame of a folio that is being split user memory that as many entries map as have mapped
    /// the folio, as the folio's key says. `folio`: the state of the first frame. No other
    /// thread reads the record: no entry has led to it yet.
    pub(in crate::frame) fn become_part(&self, folio: FrameState, entries: u32, key: Option<AnonKey>) {
        debug_assert!(self.state().may_lie_inside(), "the record of a frame inside a folio");
        debug_assert_eq!((self.mapcount(), self.pincount()), (0, 0), "counts of a frame inside a folio");
        self.write_part(folio, entries, key);
    }

    /// Plain stores: only the caller knows the frame.
    fn write_part(&self, folio: FrameState, entries: u32, key: Option<AnonKey>) {
        self.set_anon_key(key);
        self.set_mapcount(entries);
        // Release: a getter that sees the new kind sees the mapcount and the key.
        self.step(|_| Some(FrameState::part_of(folio)));
    }
}
