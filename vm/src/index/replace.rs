//! Replacing items: first the steps that can fail, then one store.
//!
//! Removed items are chained through their RCU heads before the store, while they can still be found, and
//! retired after it. The heads are unused until then, so nothing is allocated.

use super::tree_edit::TreeEdit;
use super::{FAN_OUT, IndexItem, IndexMemory, NoMemory, RangeIndex, Ranged};
use crate::machine::Cpu;
use crate::sync::RcuList;
use crate::sync::atomic::Ordering::*;
use crate::units::VpnRange;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// The largest number of items that one replacement adds: a change in the middle of an item leaves three.
pub const MAX_NEW: usize = 3;

/// A replacement that has all the memory it needs. [`publish`](Self::publish) makes it visible; if it is
/// dropped, nothing changes.
#[must_use = "nothing is replaced until this is published"]
pub struct Replacement<'a, T: Ranged, C: Cpu, N: IndexMemory<T, C, F>, const F: usize = FAN_OUT> {
    index: &'a RangeIndex<'a, T, C, F>,
    edit: TreeEdit<'a, T, C, N, F>,
    new: NewItems<'a, T, C, N, F>,
}

/// Items allocated for a replacement; freed when it is dropped.
struct NewItems<'a, T, C: Cpu, N: IndexMemory<T, C, F>, const F: usize> {
    memory: &'a N,
    items: [NonNull<IndexItem<T>>; MAX_NEW],
    len: usize,
    _cpu: PhantomData<fn() -> C>,
}

impl<T: Ranged, C: Cpu, const F: usize> RangeIndex<'_, T, C, F> {
    /// Prepares the removal of all items that overlap `old` and the addition of `new`, at most [`MAX_NEW`].
    /// The caller holds the writers' lock until the result is published or dropped.
    ///
    /// The new items are ascending and do not overlap each other, nor what is kept; no item that is kept lies
    /// between them, or between them and `old`.
    ///
    /// # Errors
    /// An allocation failed; nothing has changed.
    ///
    /// # Panics
    /// If there are too many new items, another replacement is prepared at the same time, or the memory is
    /// not the one that the index was made for. Debug builds also panic if the items break the rules above.
    pub fn prepare<'a, N: IndexMemory<T, C, F>>(
        &'a self,
        old: VpnRange,
        new: impl IntoIterator<Item = T>,
        memory: &'a N,
    ) -> Result<Replacement<'a, T, C, N, F>, NoMemory> {
        let is_own = memory.id() == self.writer.memory;
        assert!(is_own || mutant!("index.memory-not-checked"), "an index is edited with its own memory");
        let mut items = NewItems::none(memory);
        for value in new {
            items.add(value)?;
        }
        #[cfg(loom)]
        for item in &items.items[..items.len] {
            // SAFETY: just written, and not shared.
            unsafe { item.as_ref() }.value().touch();
        }
        let edit = self.edit(old, &items.items[..items.len], memory)?;
        Ok(Replacement { index: self, edit, new: items })
    }
}

impl<T: Ranged, C: Cpu, N: IndexMemory<T, C, F>, const F: usize> Replacement<'_, T, C, N, F> {
    /// Makes the replacement visible, by one store, and retires the removed items and nodes. Cannot fail; may
    /// wait for readers, so it is not called in a read section.
    pub fn publish(self) {
        self.publish_and(|_| ());
    }

    /// As [`publish`](Self::publish); calls `visit` with each removed item before it is unlinked.
    pub fn publish_and(self, mut visit: impl FnMut(&T)) {
        let Self { index, edit, mut new } = self;
        let memory = new.memory;
        let mut unlinked = RcuList::new();
        edit.each_removed(|item| {
            // SAFETY: an item in the tree is valid until retired, which happens below; its head is unused
            // until then, as only one writer at a time unlinks, and an item is unlinked once.
            unsafe {
                item.as_ref().value().before_unlink();
                visit(item.as_ref().value());
                unlinked.push::<C>(IndexItem::head(item), memory.item_tag());
            }
        });
        let nr_items = &index.writer.nr_items;
        let count = nr_items.load(Relaxed) + new.len - unlinked.len() as usize;
        edit.publish_into(&mut unlinked);
        // After the unlinking, and before anything is retired.
        if !mutant!("index.version-not-advanced") {
            index.hits.invalidate();
        }
        nr_items.store(count, Relaxed);
        new.len = 0;
        // SAFETY: all heads are those of items and nodes of this index, so of this memory, and were unlinked
        // just now.
        unsafe { memory.retire(unlinked) };
    }
}

impl<'a, T, C: Cpu, N: IndexMemory<T, C, F>, const F: usize> NewItems<'a, T, C, N, F> {
    fn none(memory: &'a N) -> Self {
        Self { memory, items: [NonNull::dangling(); MAX_NEW], len: 0, _cpu: PhantomData }
    }

    fn add(&mut self, value: T) -> Result<(), NoMemory> {
        assert!(self.len < MAX_NEW, "a replacement adds at most {MAX_NEW} items");
        let item = self.memory.alloc_item().ok_or(NoMemory)?;
        // SAFETY: the memory is valid for an item, and only this function uses it.
        unsafe { item.write(MaybeUninit::new(IndexItem::new(value))) };
        self.items[self.len] = item.cast();
        self.len += 1;
        Ok(())
    }
}

impl<T, C: Cpu, N: IndexMemory<T, C, F>, const F: usize> Drop for NewItems<'_, T, C, N, F> {
    fn drop(&mut self) {
        for item in &self.items[..self.len] {
            // SAFETY: it came from this memory, and was not published.
            unsafe { self.memory.free_item(*item) };
        }
    }
}

impl<T: Ranged, C: Cpu, N: IndexMemory<T, C, F>, const F: usize> fmt::Debug for Replacement<'_, T, C, N, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} items by {:?}", self.new.len, self.edit)
    }
}
