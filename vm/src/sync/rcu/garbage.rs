//! Lists of retired objects, by the epoch at which they were retired. Plain memory: one CPU, or a lock, owns
//! it.

use super::GarbageLimits;
use crate::machine::{AccessKind, Cpu};
use core::cell::UnsafeCell;
use core::fmt;
use core::mem;
use core::ptr::NonNull;

/// The epoch at the start.
pub(super) const FIRST_EPOCH: u64 = 1;

/// Epochs from stamping to freeing.
pub(super) const GRACE: u64 = 3;

/// The link of a retired object. It lies in the object, so that retiring needs no memory; unused until then.
pub struct RcuHead {
    next: UnsafeCell<Option<NonNull<RcuHead>>>,
    tag: UnsafeCell<usize>,
}

// SAFETY: only the thread that retires the object, and later the owner of the list, touch the fields.
unsafe impl Sync for RcuHead {}
// SAFETY: the fields are plain words.
unsafe impl Send for RcuHead {}

impl RcuHead {
    /// The head of an object that is not retired.
    pub const fn new() -> Self {
        Self { next: UnsafeCell::new(None), tag: UnsafeCell::new(0) }
    }
}

impl Default for RcuHead {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RcuHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RcuHead")
    }
}

/// Retired objects, or objects about to be retired, in the order in which they came, each with its tag.
pub struct RcuList {
    ends: Option<(NonNull<RcuHead>, NonNull<RcuHead>)>,
    len: u32,
    /// Bytes of all objects that were added, those popped since among them.
    bytes: usize,
}

// SAFETY: the list owns its objects' heads; the list's owner may follow them from any thread.
unsafe impl Send for RcuList {}

impl RcuList {
    /// An empty list.
    pub const fn new() -> Self {
        Self { ends: None, len: 0, bytes: 0 }
    }

    /// Number of objects.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Adds an object of `bytes` bytes, for as much as it counts as garbage.
    ///
    /// # Safety
    /// Until it is popped, the object is valid whenever the list, or one that it is moved to, is used, and
    /// its head is in no other use.
    pub unsafe fn push<C: Cpu>(&mut self, object: NonNull<RcuHead>, tag: usize, bytes: usize) {
        // SAFETY: the caller says that the head is this list's from now on.
        unsafe { write::<C>(object, None, Some(tag)) };
        self.append::<C>(RcuList { ends: Some((object, object)), len: 1, bytes });
    }

    fn append<C: Cpu>(&mut self, other: RcuList) {
        self.ends = match (self.ends, other.ends) {
            (Some((first, last)), Some((next, end))) => {
                // SAFETY: `last` is in this list, which owns the heads of its objects.
                unsafe { write::<C>(last, Some(next), None) };
                Some((first, end))
            }
            (mine, others) => mine.or(others),
        };
        self.len += other.len;
        self.bytes += other.bytes;
    }

    /// The oldest object and its tag.
    pub(crate) fn pop<C: Cpu>(&mut self) -> Option<(NonNull<RcuHead>, usize)> {
        let (first, last) = self.ends?;
        if C::OBSERVED {
            C::access(first.as_ptr() as usize, size_of::<RcuHead>(), AccessKind::Read);
        }
        // SAFETY: the object is in this list, which is used here, so it is valid and its head is ours.
        let (next, tag) = unsafe { (*first.as_ref().next.get(), *first.as_ref().tag.get()) };
        self.ends = next.map(|next| (next, last));
        self.len -= 1;
        Some((first, tag))
    }
}

/// # Safety
/// The head is valid, and only the caller uses it.
unsafe fn write<C: Cpu>(head: NonNull<RcuHead>, next: Option<NonNull<RcuHead>>, tag: Option<usize>) {
    if C::OBSERVED {
        C::access(head.as_ptr() as usize, size_of::<RcuHead>(), AccessKind::Write);
    }
    // SAFETY: only the caller uses the head, as it promises; the cells are written through a shared reference
    // because readers may still hold references to the object around it.
    unsafe {
        *head.as_ref().next.get() = next;
        if let Some(tag) = tag {
            *head.as_ref().tag.get() = tag;
        }
    }
}

impl Default for RcuList {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RcuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} objects", self.len)
    }
}

/// Objects retired at one epoch.
struct EpochList {
    stamp: u64,
    list: RcuList,
}

/// The waiting objects of one CPU, or of CPUs that went offline.
///
/// When the epoch is `e`, objects that may still wait were stamped `e`, `e-1` or `e-2`: three lists. If the
/// list for a new stamp holds another stamp, that is three or more epochs older, so its objects are free.
pub(super) struct Garbage {
    lists: [EpochList; GRACE as usize],
    free: RcuList,
    /// Bytes of all objects that were ever added, and of those that have left `lists`.
    added: usize,
    left: usize,
    /// The value of `added` at which to poll next.
    poll_at: usize,
    /// The epoch when this CPU looked last.
    looked: u64,
    limits: GarbageLimits,
    /// A caller on this stack is reclaiming a batch.
    reclaiming: bool,
}

impl Garbage {
    pub(super) const fn new(limits: GarbageLimits) -> Self {
        let lists = [const { EpochList { stamp: 0, list: RcuList::new() } }; GRACE as usize];
        let (poll_at, looked) = (limits.lot, FIRST_EPOCH);
        Self { lists, free: RcuList::new(), added: 0, left: 0, poll_at, looked, limits, reclaiming: false }
    }

    /// Number of objects, but those of a batch that is being reclaimed.
    pub(super) fn len(&self) -> u32 {
        self.free.len + self.lists.iter().map(|of_epoch| of_epoch.list.len).sum::<u32>()
    }

    /// Adds objects stamped `epoch` and returns whether it is time to poll.
    pub(super) fn add<C: Cpu>(&mut self, epoch: u64, objects: RcuList) -> bool {
        self.put::<C>(epoch, objects);
        self.added >= self.poll_at && !self.reclaiming
    }

    /// Bytes of the objects that wait.
    fn waiting(&self) -> usize {
        self.added - self.left
    }

    fn put<C: Cpu>(&mut self, stamp: u64, list: RcuList) {
        let of_epoch = &mut self.lists[(stamp % GRACE) as usize];
        self.added += list.bytes;
        if of_epoch.stamp < stamp {
            self.left += of_epoch.list.bytes;
            of_epoch.stamp = stamp;
            self.free.append::<C>(mem::replace(&mut of_epoch.list, list));
        } else if of_epoch.stamp == stamp {
            of_epoch.list.append::<C>(list);
        } else {
            self.left += list.bytes;
            self.free.append::<C>(list);
        }
    }

    /// Looks at the epoch and returns whether it has moved since the last look.
    pub(super) fn look(&mut self, epoch: u64) -> bool {
        mem::replace(&mut self.looked, epoch) != epoch
    }

    /// Takes over the garbage of another CPU, whatever its stamps.
    pub(super) fn merge<C: Cpu>(&mut self, other: Garbage) {
        self.free.append::<C>(other.free);
        other.lists.into_iter().for_each(|of_epoch| self.put::<C>(of_epoch.stamp, of_epoch.list));
    }

    /// Adds objects that are free already.
    pub(super) fn add_free<C: Cpu>(&mut self, list: RcuList) {
        self.free.append::<C>(list);
    }

    /// Takes out all objects but those of a batch that a caller on this stack is reclaiming.
    pub(super) fn take_all(&mut self) -> Garbage {
        let mut taken = Garbage::new(self.limits);
        mem::swap(&mut taken.lists, &mut self.lists);
        mem::swap(&mut taken.free, &mut self.free);
        taken.added = self.waiting();
        self.left = self.added;
        taken
    }

    /// Takes out the objects that are free at `epoch`.
    pub(super) fn take_free<C: Cpu>(&mut self, epoch: u64) -> RcuList {
        for of_epoch in &mut self.lists {
            let grace = GRACE - u64::from(mutant!("rcu.grace-of-two"));
            if of_epoch.stamp + grace <= epoch {
                self.left += of_epoch.list.bytes;
                self.free.append::<C>(mem::take(&mut of_epoch.list));
            }
        }
        mem::take(&mut self.free)
    }

    /// Takes out the objects that are free at `epoch`, to reclaim them; `None` if there are none, or if a
    /// caller on this stack is reclaiming. [`Garbage::end`] follows.
    pub(super) fn begin<C: Cpu>(&mut self, epoch: u64) -> Option<RcuList> {
        if self.reclaiming {
            return None;
        }
        let free = self.take_free::<C>(epoch);
        // The next poll comes after a lot more, and at the limit with every object more.
        self.poll_at = self.added + self.limits.lot.min(self.limits.most.saturating_sub(self.waiting()));
        self.reclaiming = free.len > 0;
        self.reclaiming.then_some(free)
    }

    /// Ends the reclaiming that [`Garbage::begin`] began; `rest` was not reclaimed yet.
    pub(super) fn end<C: Cpu>(&mut self, mut rest: RcuList) {
        rest.append::<C>(mem::take(&mut self.free));
        self.free = rest;
        self.reclaiming = false;
    }

    /// Whether it is time to wait for the readers.
    pub(super) fn is_full(&self) -> bool {
        self.waiting() >= self.limits.most && !self.reclaiming && !mutant!("rcu.full-not-awaited")
    }
}
