//! A range tree that owns its items: values go in, references come out, and what is replaced is retired by
//! the tree.
//!
//! So the floors above hold no pointer: a reader gets `&T` for the life of its read section, a writer hands
//! `T`s over by value, and memory comes and goes through [`IndexMemory`].
//!
//! What goes is chained through the links inside it before the replacement is published, when it can still be
//! found, and retired afterwards, when it cannot. The link is unused until then, so nothing is allocated.

use super::{NoMemory, NodeMemory, Prepared, RangeTree, Ranged};
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicUsize, Ordering::*};
use crate::sync::{CacheAligned, CpuRef, HitSource, LastHit, RcuHead, RcuList as List, ReadGuard};
use crate::units::{Vpn, VpnRange};
use core::fmt;
use core::mem::{MaybeUninit, needs_drop, offset_of};
use core::ptr::NonNull;

/// The most items that one replacement puts in: what becomes of one that is changed in its middle.
pub const MAX_NEW: usize = 3;

/// An item as it lies in memory: the value, and the link that retires it.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct IndexItem<T> {
    value: T,
    head: RcuHead,
}

/// Where nodes and items come from.
///
/// # Safety
/// `alloc_item` returns memory that is valid for an item and that nobody else uses until it is given to
/// `free_item`, or a grace period has passed since it was given to `retire` with the tag for items.
pub unsafe trait IndexMemory<T, C: Cpu>: NodeMemory<C> {
    /// Memory for an item, whatever it contains.
    fn alloc_item(&self) -> Option<NonNull<MaybeUninit<IndexItem<T>>>>;

    /// Takes back an item that no reader has ever seen.
    ///
    /// # Safety
    /// It came from `alloc_item`, and its user has no use for it.
    unsafe fn free_item(&self, item: NonNull<IndexItem<T>>);

    /// What [`Rcu`](crate::sync::Rcu) is to keep beside the [`head`](IndexItem::head) of a retired item.
    fn item_tag(&self) -> usize;
}

/// An index of disjoint ranges that owns its items.
///
/// One index is always used with the same memory. Items still in it when it is dropped are lost to that
/// memory: its user replaces everything by nothing first.
pub struct RangeIndex<T, C: Cpu> {
    tree: RangeTree<IndexItem<T>, C>,
    /// What CPUs cache their last hits under.
    pub(super) hits: HitSource<C>,
    /// Items; on a line that lookups do not read. Written by the one writer; relaxed: others see it stale.
    count: CacheAligned<AtomicUsize<C>>,
}

/// A replacement that needs nothing any more. [`Replacement::publish`] makes it visible; dropped, it never
/// was.
#[must_use = "nothing is replaced until this is published"]
pub struct Replacement<'a, T: Ranged, C: Cpu, N: IndexMemory<T, C>> {
    index: &'a RangeIndex<T, C>,
    prepared: Prepared<'a, IndexItem<T>, C, N, { super::FAN_OUT }>,
    items: NewItems<'a, T, C, N>,
}

/// Items made and not yet published.
struct NewItems<'a, T, C: Cpu, N: IndexMemory<T, C>> {
    memory: &'a N,
    items: [NonNull<IndexItem<T>>; MAX_NEW],
    len: usize,
    _cpu: core::marker::PhantomData<fn() -> C>,
}

impl<T> IndexItem<T> {
    /// The item itself.
    #[cfg(test)]
    pub(super) fn value(&self) -> &T {
        &self.value
    }

    /// The link to hand to [`Rcu::retire`](crate::sync::Rcu::retire).
    ///
    /// # Safety
    /// The item is valid memory for an item.
    pub unsafe fn head(item: NonNull<Self>) -> NonNull<RcuHead> {
        // SAFETY: the field lies inside the item.
        unsafe { item.byte_add(offset_of!(Self, head)).cast() }
    }

    /// The item whose [`head`](Self::head) this is.
    ///
    /// # Safety
    /// The pointer came from `head`.
    pub unsafe fn of_head(head: NonNull<RcuHead>) -> NonNull<Self> {
        // SAFETY: the field lies inside the item, and the pointer was made from the item's.
        unsafe { head.byte_sub(offset_of!(Self, head)).cast() }
    }
}

impl<T: Ranged> Ranged for IndexItem<T> {
    fn range(&self) -> VpnRange {
        self.value.range()
    }
    fn guard_pages(&self) -> u64 {
        self.value.guard_pages()
    }
}

impl<T: Ranged, C: Cpu> RangeIndex<T, C> {
    /// An index without items.
    pub fn new() -> Self {
        const { assert!(!needs_drop::<T>(), "items are forgotten, never dropped") };
        Self { tree: RangeTree::new(), hits: HitSource::new(), count: CacheAligned(AtomicUsize::new(0)) }
    }

    /// Number of items; stale at once unless the caller holds the writers' lock.
    pub fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Whether there is no item; stale at once unless the caller holds the writers' lock.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// The item that contains `vpn`.
    #[inline]
    #[track_caller]
    pub fn find<'g>(&self, section: &'g ReadGuard<'_, C>, vpn: Vpn) -> Option<&'g T> {
        self.tree.find(section, vpn).map(|item| &item.value)
    }

    /// As [`find`](Self::find), by way of this CPU's last hit. `part` says where in the CPU's slot that is
    /// cached.
    #[inline(always)]
    #[track_caller]
    pub fn find_cached<'g, S>(
        &self,
        section: &'g ReadGuard<'_, C>,
        mine: CpuRef<'_, S, C>,
        part: fn(&S) -> &LastHit<C, 1>,
        vpn: Vpn,
    ) -> Option<&'g T> {
        let version = self.hits.version();
        if let Some([item]) = LastHit::get(mine, part, &self.hits, version) {
            let item = core::ptr::with_exposed_provenance::<IndexItem<T>>(item as usize);
            // SAFETY: cached below, by a lookup in this index, since nothing else caches hits under its source;
            // at an unchanged version it is in memory until the read section ends, as `sync::last_hit` shows.
            let item = unsafe { &*item };
            if item.range().contains(vpn) {
                return Some(&item.value);
            }
        }
        let found = self.tree.find(section, vpn)?;
        let address = (&raw const *found).expose_provenance() as u64;
        // SAFETY: found in this index, after the version was read and in the read section; a replacement
        // invalidates hits before it retires what it unlinked.
        unsafe { LastHit::set(mine, part, &self.hits, version, [address]) };
        Some(&found.value)
    }

    /// The item that contains `vpn`, or else the first one after it.
    #[track_caller]
    pub fn next_at_or_after<'g>(&self, section: &'g ReadGuard<'_, C>, vpn: Vpn) -> Option<&'g T> {
        self.tree.next_at_or_after(section, vpn).map(|item| &item.value)
    }

    /// The last item that starts before `vpn`; it may contain `vpn`.
    #[track_caller]
    pub fn prev_before<'g>(&self, section: &'g ReadGuard<'_, C>, vpn: Vpn) -> Option<&'g T> {
        self.tree.prev_before(section, vpn).map(|item| &item.value)
    }

    /// The items that overlap `range`, ascending.
    pub fn items<'g>(
        &'g self,
        section: &'g ReadGuard<'g, C>,
        range: VpnRange,
    ) -> impl Iterator<Item = &'g T> + 'g {
        self.tree.items(section, range).map(|item| &item.value)
    }

    /// The tree, for searches of holes and for checkers.
    pub fn tree(&self) -> &RangeTree<IndexItem<T>, C> {
        &self.tree
    }

    /// Prepares that all items which overlap `old` go and those of `new`, at most [`MAX_NEW`], come; as
    /// [`RangeTree::prepare`]. The caller holds the writers' lock until the result is published or dropped.
    ///
    /// # Errors
    /// There was no memory; nothing has changed.
    ///
    /// # Panics
    /// Where there are too many new items, or another replacement is prepared at the same time.
    pub fn prepare<'a, N: IndexMemory<T, C>>(
        &'a self,
        old: VpnRange,
        new: impl IntoIterator<Item = T>,
        memory: &'a N,
    ) -> Result<Replacement<'a, T, C, N>, NoMemory> {
        let mut items = NewItems::new(memory);
        for value in new {
            items.add(value)?;
        }
        #[cfg(loom)]
        for item in &items.items[..items.len] {
            // SAFETY: just written, and nobody else's.
            unsafe { item.as_ref() }.value.touch();
        }
        let prepared = self.tree.prepare(old, &items.items[..items.len], memory)?;
        Ok(Replacement { index: self, prepared, items })
    }
}

impl<T: Ranged, C: Cpu, N: IndexMemory<T, C>> Replacement<'_, T, C, N> {
    /// Makes the replacement visible, by one store, and retires what went. Cannot fail; may wait for readers,
    /// so it is not called in a read section.
    pub fn publish(self) {
        self.publish_and(|_| ());
    }

    /// As [`publish`](Self::publish), and shows each item that goes before it is unlinked.
    pub fn publish_and(self, mut show: impl FnMut(&T)) {
        let Self { index, prepared, mut items } = self;
        let memory = items.memory;
        let mut gone = List::new();
        prepared.each_going(|item| {
            // SAFETY: an item in the tree is valid until retired, which happens below; its head is unused
            // until then, as only one writer at a time unlinks, and an item is unlinked once.
            unsafe {
                item.as_ref().value.before_unlink();
                show(&item.as_ref().value);
                gone.push::<C>(IndexItem::head(item), memory.item_tag());
            }
        });
        let count = index.count.load(Relaxed) + items.len - gone.len() as usize;
        prepared.unlink_into(&mut gone);
        // After the unlinking, and before anything is retired.
        if !mutant!("index.version-not-advanced") {
            index.hits.invalidate();
        }
        index.count.store(count, Relaxed);
        items.len = 0;
        // SAFETY: all heads are those of items and nodes of this index, so of this memory, and were unlinked
        // just now.
        unsafe { memory.retire(gone) };
    }
}

impl<'a, T, C: Cpu, N: IndexMemory<T, C>> NewItems<'a, T, C, N> {
    fn new(memory: &'a N) -> Self {
        Self { memory, items: [NonNull::dangling(); MAX_NEW], len: 0, _cpu: core::marker::PhantomData }
    }

    fn add(&mut self, value: T) -> Result<(), NoMemory> {
        assert!(self.len < MAX_NEW, "a replacement puts in at most {MAX_NEW} items");
        let place = self.memory.alloc_item().ok_or(NoMemory)?;
        // SAFETY: the memory is valid for an item, and ours alone.
        unsafe { place.write(MaybeUninit::new(IndexItem { value, head: RcuHead::new() })) };
        self.items[self.len] = place.cast();
        self.len += 1;
        Ok(())
    }
}

impl<T, C: Cpu, N: IndexMemory<T, C>> Drop for NewItems<'_, T, C, N> {
    fn drop(&mut self) {
        for item in &self.items[..self.len] {
            // SAFETY: it came from this memory, and was not published.
            unsafe { self.memory.free_item(*item) };
        }
    }
}

impl<T: Ranged, C: Cpu> Default for RangeIndex<T, C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, C: Cpu> fmt::Debug for RangeIndex<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RangeIndex of {} items", self.count.load(Relaxed))
    }
}

impl<T: Ranged, C: Cpu, N: IndexMemory<T, C>> fmt::Debug for Replacement<'_, T, C, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} items by {:?}", self.items.len, self.prepared)
    }
}
