//! Replacing items: first the steps that can fail, then one store.
//!
//! Removed items are chained through their RCU heads before the store, while they can still be found, and
//! retired after it. The heads are unused until then, so nothing is allocated.

use super::node::NodeSlot;
use super::tree_edit::TreeEdit;
use super::{END, FAN_OUT, IndexItem, IndexMemory, NoMemory, RangeIndex, Ranged};
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
    /// The items, with what they say of themselves.
    slots: [NodeSlot; MAX_NEW],
    len: usize,
    _cpu: PhantomData<fn() -> C>,
}

impl<T: Ranged, C: Cpu, const F: usize> RangeIndex<'_, T, C, F> {
    /// Prepares the removal of all items that overlap `old` and the addition of `new`, at most [`MAX_NEW`].
    /// There is no other edit of the index until the result is published or dropped.
    ///
    /// The new items are ascending and do not overlap each other, nor an item outside of `old`; no such item
    /// lies between them, or between them and `old`. (It would be removed too.)
    ///
    /// # Errors
    /// An allocation failed; nothing has changed.
    ///
    /// # Panics
    /// If there are too many new items, or they are empty, not ascending, or end beyond [`END`]; if another
    /// replacement is prepared at the same time, or the memory is not the one that the index was made for.
    /// Debug builds also panic if an item outside of `old` would be removed.
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
        // SAFETY: `items` has checked the order and owns the items; it frees them only if the edit is not
        // published. The memory is the index's.
        let edit = unsafe { self.edit(old, &items.slots[..items.len], memory)? };
        Ok(Replacement { index: self, edit, new: items })
    }
}

impl<T: Ranged, C: Cpu, N: IndexMemory<T, C, F>, const F: usize> Replacement<'_, T, C, N, F> {
    /// Makes the replacement visible, by one store, and retires the removed items and nodes. Cannot fail; may
    /// wait for readers, so it is not called in a read section.
    pub fn publish(self) {
        self.publish_and(|_| ());
    }

    /// As [`publish`](Self::publish); calls `visit` with each removed item before it is unlinked. No lock of
    /// the index's is held then, but this edit is under way: another one that `visit` prepares panics.
    pub fn publish_and(self, mut visit: impl FnMut(&T)) {
        let Self { index, mut edit, mut new } = self;
        let memory = new.memory;
        let mut unlinked = RcuList::new();
        edit.each_removed(|item| {
            // SAFETY: an item in the tree is valid until retired, which happens below; its head is unused
            // until then, as this is the only edit, and an item is in the tree once.
            unsafe {
                item.as_ref().value().before_unlink();
                visit(item.as_ref().value());
                let bytes = size_of::<IndexItem<T>>();
                unlinked.push::<C>(IndexItem::head(item), memory.item_tag(), bytes);
            }
        });
        let nr_items = &index.writer.nr_items;
        let count = nr_items.load(Relaxed) + new.len - unlinked.len() as usize;
        edit.publish_into(&mut unlinked);
        new.len = 0;
        // After the unlinking, before anything is retired, and before another edit can begin.
        if !mutant!("index.version-not-advanced") {
            index.hits.invalidate();
        }
        nr_items.store(count, Relaxed);
        drop(edit);
        // SAFETY: all heads are those of items and nodes of this index, so of this memory, and were unlinked
        // just now.
        unsafe { memory.retire(unlinked) };
    }
}

impl<'a, T, C: Cpu, N: IndexMemory<T, C, F>, const F: usize> NewItems<'a, T, C, N, F> {
    fn none(memory: &'a N) -> Self {
        let items = [NonNull::dangling(); MAX_NEW];
        let slots = items.map(|item| NodeSlot::of_item(item, VpnRange::default(), 0));
        Self { memory, items, slots, len: 0, _cpu: PhantomData }
    }

    /// Adds an item behind the others. Its range and guard are asked for here, and never again.
    #[inline(always)]
    fn add(&mut self, value: T) -> Result<(), NoMemory>
    where
        T: Ranged,
    {
        assert!(self.len < MAX_NEW, "a replacement adds at most {MAX_NEW} items");
        let (range, guard_pages) = (value.range(), value.guard_pages());
        let end = self.slots[..self.len].last().map_or(0, NodeSlot::end);
        let is_ascending = end <= range.start.0 && range.start < range.end && range.end <= END;
        assert!(
            is_ascending || mutant!("index.order-not-checked"),
            "items empty, out of order or beyond the end"
        );
        let item = self.memory.alloc_item().ok_or(NoMemory)?;
        // SAFETY: the memory is valid for an item, and only this function uses it.
        unsafe { item.write(MaybeUninit::new(IndexItem::new(value))) };
        let item = item.cast::<IndexItem<T>>();
        self.items[self.len] = item;
        self.slots[self.len] = NodeSlot::of_item(item, range, guard_pages);
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
