//! Slabs: frames divided into objects of one size, their header in the frame's record.
//!
//! | record field | holds |
//! |---|---|
//! | mapcount | objects that are allocated from the slab: in use, or in a CPU's stack |
//! | word, low half | first free object, counted from 1; each free object's first bytes name the next |
//! | word, high half | objects never allocated yet, which all lie behind the others |
//! | link | neighbours in the pool's list of slabs with a free object |
//!
//! A fresh slab is not written at all: objects never allocated are counted, not linked.

use crate::frame::record::Links;
use crate::frame::{FrameMeta, FrameTable};
use crate::machine::{Cpu, Machine};
use crate::sync::Plain;
use crate::units::{PAGE_SIZE, Pfn, PhysAddr};

/// How a frame is divided into objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::frame) struct SlabLayout {
    /// Bytes from one object to the next.
    pub stride: u32,
    /// Objects in a slab.
    pub objects: u32,
}

impl SlabLayout {
    /// The layout for objects of this size and alignment. Free ones need room for a link.
    pub const fn of(size: usize, align: usize) -> Self {
        let align = if align < align_of::<u64>() { align_of::<u64>() } else { align };
        let size = if size == 0 { 1 } else { size };
        let stride = size.next_multiple_of(align);
        assert!(stride <= PAGE_SIZE, "a pool's objects fit a frame");
        Self { stride: stride as u32, objects: (PAGE_SIZE / stride) as u32 }
    }

    fn object(self, slab: Pfn, index: u32) -> PhysAddr {
        PhysAddr(slab.addr().0 + u64::from(index * self.stride))
    }
}

/// The free objects of a slab, as its record's word.
#[derive(Clone, Copy)]
struct FreeObjects {
    /// First free object, counted from 1; 0 for none.
    first: u16,
    /// Objects never allocated.
    fresh: u16,
}

impl FreeObjects {
    fn of<C: Cpu>(meta: &FrameMeta<C>) -> Self {
        let word = meta.slab_word();
        Self { first: word as u16, fresh: (word >> 16) as u16 }
    }

    fn store<C: Cpu>(self, meta: &FrameMeta<C>) {
        meta.set_slab_word(u32::from(self.first) | u32::from(self.fresh) << 16);
    }
}

/// The slabs of a pool, under its lock.
#[derive(Debug)]
pub(in crate::frame) struct SlabLists<C: Cpu> {
    /// First slab with both free and allocated objects.
    partial: Plain<Option<Pfn>, C>,
    /// A slab whose objects are all free.
    spare: Plain<Option<Pfn>, C>,
    frames: Plain<u64, C>,
}

impl<C: Cpu> SlabLists<C> {
    /// No slabs.
    pub const fn new() -> Self {
        Self { partial: Plain::new(None), spare: Plain::new(None), frames: Plain::new(0) }
    }

    /// Slabs that the pool has.
    pub fn frames(&self) -> u64 {
        self.frames.get()
    }

    /// Adds a frame that has just become a slab.
    ///
    /// # Safety
    /// As [`alloc`](Self::alloc); and the frame is of that memory, and only these lists use it from now on.
    pub unsafe fn add(&mut self, table: &FrameTable<C>, layout: &SlabLayout, pfn: Pfn) {
        FreeObjects { first: 0, fresh: layout.objects as u16 }.store(header(table, pfn));
        self.link(table, pfn);
        self.frames.set(self.frames.get() + 1);
    }

    /// Allocates an object from a slab that has a free one.
    ///
    /// # Safety
    /// These are the lists of one pool: `layout` is that pool's, and its slabs are frames of the memory of
    /// `machine` and `table`.
    pub unsafe fn alloc<M: Machine<Cpu = C>>(
        &mut self,
        machine: &M,
        table: &FrameTable<C>,
        layout: &SlabLayout,
    ) -> Option<PhysAddr> {
        if self.partial.get().is_none() {
            let spare = self.spare.get()?;
            self.spare.set(None);
            self.link(table, spare);
        }
        let slab = self.partial.get()?;
        let meta = header(table, slab);
        let free = FreeObjects::of(meta);
        let (index, left) = match free.first.checked_sub(1) {
            Some(index) => {
                let object = layout.object(slab, index.into());
                // SAFETY: the first of the slab's free objects; the caller's lock excludes others.
                let next = unsafe { load_link(machine, object) };
                (index, FreeObjects { first: next, ..free })
            }
            None => (layout.objects as u16 - free.fresh, FreeObjects { fresh: free.fresh - 1, ..free }),
        };
        left.store(meta);
        meta.set_mapcount(meta.mapcount() + 1);
        if meta.mapcount() == layout.objects {
            self.unlink(table, slab);
        }
        Some(layout.object(slab, index.into()))
    }

    /// Frees an object. A slab that is empty then, and not needed as a spare, is removed: the caller frees
    /// its frame.
    ///
    /// # Panics
    /// If no object of its slab is allocated.
    ///
    /// # Safety
    /// As [`alloc`](Self::alloc); and `object` was allocated from these lists, is not free, and is not used
    /// any more.
    pub unsafe fn free<M: Machine<Cpu = C>>(
        &mut self,
        machine: &M,
        table: &FrameTable<C>,
        layout: &SlabLayout,
        object: PhysAddr,
    ) -> Option<Pfn> {
        let slab = object.pfn();
        let (meta, index) = (header(table, slab), object.offset() as u32 / layout.stride);
        let (free, used) = (FreeObjects::of(meta), meta.mapcount());
        assert!(used > 0, "{object:?} is freed twice");
        // SAFETY: the object is free from now on, and the caller's lock excludes others.
        unsafe { store_link(machine, object, free.first) };
        FreeObjects { first: index as u16 + 1, ..free }.store(meta);
        meta.set_mapcount(used - 1);
        if used == layout.objects {
            self.link(table, slab);
        }
        if used > 1 {
            return None;
        }
        self.unlink(table, slab);
        if self.spare.get().is_none() {
            self.spare.set(Some(slab));
            return None;
        }
        self.frames.set(self.frames.get() - 1);
        Some(slab)
    }

    /// Removes the spare.
    pub fn take_spare(&mut self) -> Option<Pfn> {
        let spare = self.spare.get()?;
        self.spare.set(None);
        self.frames.set(self.frames.get() - 1);
        Some(spare)
    }

    fn link(&mut self, table: &FrameTable<C>, pfn: Pfn) {
        let next = self.partial.get();
        let meta = header(table, pfn);
        meta.set_prev(None);
        meta.set_next(next);
        if let Some(next) = next {
            header(table, next).set_prev(Some(pfn));
        }
        self.partial.set(Some(pfn));
    }

    fn unlink(&mut self, table: &FrameTable<C>, pfn: Pfn) {
        let Links { prev, next } = header(table, pfn).links();
        match prev {
            Some(prev) => header(table, prev).set_next(next),
            None => self.partial.set(next),
        }
        if let Some(next) = next {
            header(table, next).set_prev(prev);
        }
    }
}

fn header<'a, C: Cpu>(table: &'a FrameTable<'_, C>, pfn: Pfn) -> &'a FrameMeta<C> {
    table.meta(pfn).expect("a slab has a record")
}

/// Loads the link in a free object.
///
/// # Safety
/// The object is a free one of a slab, in which [`store_link`] has stored a link, and only the caller uses
/// it.
unsafe fn load_link<M: Machine>(machine: &M, object: PhysAddr) -> u16 {
    // SAFETY: the bytes are at least 8, aligned to 8; they hold a link, and nothing else uses them.
    unsafe { machine.window(object).cast::<Plain<u16, M::Cpu>>().as_ref() }.get()
}

/// Stores the link in an object that is being freed.
///
/// # Safety
/// The object is a free one of a slab, and only the caller uses it.
unsafe fn store_link<M: Machine>(machine: &M, object: PhysAddr, next: u16) {
    // SAFETY: as for `load_link`; any bytes are a valid word.
    unsafe { machine.window(object).cast::<Plain<u16, M::Cpu>>().as_mut() }.set(next);
}
