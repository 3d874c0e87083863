//! Lists of retired objects, by the epoch at which they were retired. Plain memory: one CPU owns it, or a CPU
//! that has revoked that one's ownership, or a lock.

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

/// Objects freed between two moments where the thread may be preempted.
pub(super) const BATCH: u32 = 32;

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

    /// Takes out the oldest objects, [`BATCH`] at most.
    fn split_batch<C: Cpu>(&mut self) -> RcuList {
        let Some((first, end)) = self.ends.filter(|_| self.len > BATCH) else { return mem::take(self) };
        // SAFETY: the object is in this list, which owns the heads of its objects; here and below.
        let next = |at| unsafe { read::<C>(at).0 };
        let last = (1..BATCH).fold(first, |at, _| next(at).unwrap_or(end));
        self.ends = next(last).map(|next| (next, end));
        self.len -= BATCH;
        // SAFETY: as above; it is in the other list from here on.
        unsafe { write::<C>(last, None, None) };
        RcuList { ends: Some((first, last)), len: BATCH, bytes: 0 }
    }

    /// The oldest object and its tag.
    #[cfg(test)]
    pub(crate) fn pop<C: Cpu>(&mut self) -> Option<(NonNull<RcuHead>, usize)> {
        let (first, last) = self.ends?;
        // SAFETY: the object is in this list, which is used here, so it is valid and its head is ours.
        let (next, tag) = unsafe { read::<C>(first) };
        self.ends = next.map(|next| (next, last));
        self.len -= 1;
        Some((first, tag))
    }

    /// Calls `f` with each object and its tag, the oldest first. What `f` does with the object ends its being
    /// in the list.
    pub(super) fn each<C: Cpu>(self, mut f: impl FnMut(NonNull<RcuHead>, usize)) {
        let mut rest = self.ends.map(|(first, _)| first);
        while let Some(object) = rest {
            // SAFETY: the object is in this list, which is used here, so it is valid and its head is ours; it
            // is read before `f` gets it.
            let (next, tag) = unsafe { read::<C>(object) };
            rest = next;
            f(object, tag);
        }
    }
}

/// The link and the tag of a head.
///
/// # Safety
/// The head is valid, and only the caller uses it.
unsafe fn read<C: Cpu>(head: NonNull<RcuHead>) -> (Option<NonNull<RcuHead>>, usize) {
    if C::OBSERVED {
        C::access(head.as_ptr() as usize, size_of::<RcuHead>(), AccessKind::Read);
    }
    // SAFETY: the caller's promise.
    unsafe { (*head.as_ref().next.get(), *head.as_ref().tag.get()) }
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
    /// When the first of them was retired.
    since_ns: u64,
}

/// The most that waited at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GarbagePeak {
    /// Bytes.
    pub bytes: usize,
    /// The number of objects then.
    pub objects: u32,
    /// Of the bytes, those of the last retirement.
    pub last_bytes: usize,
}

/// The waiting objects of one CPU, or those that no CPU owns.
///
/// When the epoch is `e`, objects that may still wait were stamped `e`, `e-1` or `e-2`: three lists. If the
/// list for a new stamp holds another stamp, that is three or more epochs older, so its objects have expired.
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
    peak: GarbagePeak,
    /// The longest time that an object waited until it was found free.
    longest_ns: u64,
}

impl Garbage {
    pub(super) const fn new(limits: GarbageLimits) -> Self {
        let lists = [const { EpochList { stamp: 0, list: RcuList::new(), since_ns: 0 } }; GRACE as usize];
        Self {
            lists,
            free: RcuList::new(),
            added: 0,
            left: 0,
            poll_at: limits.lot,
            looked: FIRST_EPOCH,
            limits,
            peak: GarbagePeak { bytes: 0, objects: 0, last_bytes: 0 },
            longest_ns: 0,
        }
    }

    /// Number of objects, but those of a batch that is being freed.
    pub(super) fn len(&self) -> u32 {
        self.free.len + self.lists.iter().map(|of_epoch| of_epoch.list.len).sum::<u32>()
    }

    /// Adds objects stamped `epoch` and returns whether it is time to poll.
    pub(super) fn add<C: Cpu>(&mut self, epoch: u64, objects: RcuList) -> bool {
        let last_bytes = objects.bytes;
        self.put::<C>(epoch, objects, None);
        self.note_peak(last_bytes);
        self.added >= self.poll_at
    }

    /// Bytes of the objects that wait.
    pub(super) fn waiting(&self) -> usize {
        self.added - self.left
    }

    /// Adds objects that were retired at `since_ns`, or now.
    fn put<C: Cpu>(&mut self, stamp: u64, list: RcuList, since_ns: Option<u64>) {
        let of_epoch = &mut self.lists[(stamp % GRACE) as usize];
        self.added += list.bytes;
        if of_epoch.stamp < stamp {
            let since_ns = since_ns.unwrap_or_else(C::now_ns);
            let before = mem::replace(of_epoch, EpochList { stamp, list, since_ns });
            self.set_free::<C>(before, since_ns);
        } else if of_epoch.stamp == stamp {
            of_epoch.list.append::<C>(list);
            of_epoch.since_ns = of_epoch.since_ns.min(since_ns.unwrap_or(u64::MAX));
        } else {
            self.left += list.bytes;
            self.free.append::<C>(list);
        }
    }

    /// Objects of `lists` have been found free.
    fn set_free<C: Cpu>(&mut self, of_epoch: EpochList, now_ns: u64) {
        if of_epoch.list.len > 0 {
            self.longest_ns = self.longest_ns.max(now_ns.saturating_sub(of_epoch.since_ns));
        }
        self.left += of_epoch.list.bytes;
        self.free.append::<C>(of_epoch.list);
    }

    /// Looks at the epoch and returns whether it has moved since the last look.
    pub(super) fn look(&mut self, epoch: u64) -> bool {
        mem::replace(&mut self.looked, epoch) != epoch
    }

    /// Takes over garbage, whatever its stamps.
    pub(super) fn merge<C: Cpu>(&mut self, other: Garbage) {
        self.free.append::<C>(other.free);
        for EpochList { stamp, list, since_ns } in other.lists {
            self.put::<C>(stamp, list, Some(since_ns));
        }
        self.note_peak(0);
    }

    #[inline(always)]
    fn note_peak(&mut self, last_bytes: usize) {
        if self.waiting() > self.peak.bytes {
            self.peak = GarbagePeak { bytes: self.waiting(), objects: self.len(), last_bytes };
        }
    }

    /// Adds objects that have expired already.
    pub(super) fn add_expired<C: Cpu>(&mut self, list: RcuList) {
        self.free.append::<C>(list);
    }

    /// Takes out all objects but those of a batch that is being freed.
    pub(super) fn take_all(&mut self) -> Garbage {
        let mut taken = Garbage::new(self.limits);
        mem::swap(&mut taken.lists, &mut self.lists);
        mem::swap(&mut taken.free, &mut self.free);
        taken.added = self.waiting();
        self.left = self.added;
        taken
    }

    /// Finds the objects that have expired at `epoch`.
    fn find_free<C: Cpu>(&mut self, epoch: u64) {
        let grace = GRACE - u64::from(mutant!("rcu.grace-of-two"));
        for at in 0..self.lists.len() {
            let of_epoch = &mut self.lists[at];
            if of_epoch.stamp + grace <= epoch && of_epoch.list.len > 0 {
                let (stamp, since_ns) = (of_epoch.stamp, of_epoch.since_ns);
                let found = mem::replace(of_epoch, EpochList { stamp, list: RcuList::new(), since_ns });
                self.set_free::<C>(found, C::now_ns());
            }
        }
    }

    /// Takes out all objects that have expired at `epoch`.
    pub(super) fn take_expired<C: Cpu>(&mut self, epoch: u64) -> RcuList {
        self.find_free::<C>(epoch);
        mem::take(&mut self.free)
    }

    /// Takes out a batch of the objects that have expired at `epoch`, to free them.
    pub(super) fn take_batch<C: Cpu>(&mut self, epoch: u64) -> RcuList {
        self.find_free::<C>(epoch);
        // The next poll comes after a lot more, and at the limit with every object more.
        self.poll_at = self.added + self.limits.lot.min(self.limits.most.saturating_sub(self.waiting()));
        self.free.split_batch::<C>()
    }

    /// Whether it is time to wait for the readers.
    pub(super) fn is_full(&self) -> bool {
        self.waiting() >= self.limits.most && !mutant!("rcu.full-not-awaited")
    }

    /// The most that waited at once.
    pub(super) fn peak(&self) -> GarbagePeak {
        self.peak
    }

    /// How long the oldest object that waits has done so; for objects found free already, for ever.
    pub(super) fn oldest_ns(&self, now_ns: u64) -> u64 {
        if self.free.len > 0 {
            return u64::MAX;
        }
        let waiting = self.lists.iter().filter(|of_epoch| of_epoch.list.len > 0);
        waiting.map(|of_epoch| now_ns.saturating_sub(of_epoch.since_ns)).max().unwrap_or(0)
    }

    /// The longest time that an object waited until it was found free, in nanoseconds.
    pub(super) fn longest_ns(&self) -> u64 {
        self.longest_ns
    }
}
