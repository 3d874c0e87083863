//! RCU: readers that write one word of their own CPU, and garbage that waits until no reader can hold it.
//!
//! A reader enters by storing the epoch that it saw into its CPU's word, and leaves by storing 0. Neither a
//! fence nor a read-modify-write: the compiler keeps the store before the reads of the section
//! ([`light_fence`]), and the CPU that reads the words pays for both sides with [`Machine::barrier_all`].
//!
//! ```text
//! reader                        advance e -> e+1                 retire
//! word = (epoch, 1)   Release   under the advance lock:          (the object is unlinked)
//! light fence                     read epoch, it is e            light fence
//! ... reads ...                   barrier_all                    stamp = epoch
//! word = 0            Release     all words are 0 or of e?       freed when epoch >= stamp + 3
//!                                 epoch = e+1
//! ```
//!
//! Why three. Let `B` be the barrier of the advance from `s+1` to `s+2`. It starts after `s+1` was stored, so
//! the CPU that stamped `s` had passed its light fence before `B`: the unlinking is before `B` on that CPU,
//! and a reader after `B` cannot find the object. A reader that holds it has therefore stored its word before
//! `B`, when the epoch was at most `s+1`. The advance from `s+2` to `s+3` sees that word and refuses, until
//! the reader has left. With `stamp + 2` a reader could have entered at `s+1` while the unlinking was still
//! in the store buffer of the CPU that stamped `s`; a full fence in `retire` would cure that on today's
//! machines; waiting one more epoch costs nothing and needs no argument about them. The model
//! `loom_rcu_with_a_grace_period_of_two_epochs_fails` shows that execution.
//!
//! All stores to the word release, entering too: an advance that finds the word of the *next* section must
//! know that the accesses of the last one are over.
//!
//! Garbage lies in lists of the CPU that retired it, linked through the objects, one list for each of the
//! three epochs that may still be waiting. After each lot of bytes `retire` polls; a CPU that has the most
//! that [`GarbageLimits`] allow waits for the readers.
//!
//! An advance interrupts every CPU and writes a line that every reader reads, so one serves all: a CPU that
//! polls advances only if the epoch has not moved since it looked last. So however many CPUs retire, there is
//! one advance for each lot of the CPU that retires most.
//!
//! A CPU that retires or polls also notes the epoch that it sees, if it is in no section then. An advance
//! that finds that all CPUs have noted its epoch needs no barrier: so CPUs that all retire do not interrupt
//! each other.
//! docs/design/rcu.md says why that mixes with the other kind.

mod free;
mod garbage;
mod guard;
mod handler_section;
mod idle;
mod limits;
mod local;
#[cfg(all(test, loom))]
#[path = "tests/loom_rcu.rs"]
mod loom_tests;
mod slot;
mod stats;
#[cfg(all(test, not(loom)))]
mod tests;

pub use garbage::{RcuHead, RcuList};
pub use guard::ReadGuard;
pub use handler_section::HandlerSection;
pub use limits::GarbageLimits;
pub use slot::RcuSlot;
pub use stats::GarbageStats;

use super::asymmetric::AsymmetricCell;
use super::atomic::{AtomicU64, Ordering::*, light_fence};
use super::{CacheAligned, Carve, PerCpu, SpinLock, UniqueId, lockdep};
use crate::machine::{Cpu, Machine};
use crate::units::Level;
use core::fmt;
use core::mem;
use core::ptr::NonNull;
use garbage::{GRACE, Garbage};
use guard::DEPTH;
use local::{Local, garbage_of};

/// Frees objects that no reader can hold any more. Implemented by the floor that owns the memory.
///
/// # Safety
/// 1. `id` returns the same at each call. All values that return it free the same objects.
/// 2. As long as there is such a value, objects that were retired for it and are not yet freed stay
///    valid.
pub unsafe trait DeferredFree {
    /// Which objects it frees: an [`Rcu`] takes garbage of one memory only.
    fn id(&self) -> UniqueId;

    /// Frees the object; `tag` is the argument of [`Rcu::retire`]. May retire other objects; must not sleep
    /// or wait for readers, as preemption is off.
    ///
    /// # Safety
    /// The object was retired with this tag, and this is the only call for it.
    unsafe fn free_deferred(&self, tag: usize, object: NonNull<RcuHead>);
}

/// Readers, the epoch, and the garbage that waits for them.
pub struct Rcu<'m, C: Cpu> {
    /// Only moves up, by one, under `advance`. Its releasing store pairs with the acquiring load of the
    /// CPU that frees.
    epoch: CacheAligned<AtomicU64<C>>,
    /// Held while the epoch is advanced, and while the garbage of all CPUs is revoked; guards the *orphans*,
    /// the garbage that no CPU owns. Not on the line of `cpus`, which each read section reads.
    advance: CacheAligned<SpinLock<Garbage, C, { lockdep::RCU.0 }>>,
    /// Number of orphans.
    orphaned: AtomicU64<C>,
    /// The number of the [`DeferredFree`] whose objects all garbage is; 0 before the first. Relaxed: it
    /// changes once, before any garbage is there.
    memory_id: AtomicU64<C>,
    /// The longest wait for readers. Relaxed: a count.
    longest_grace_ns: AtomicU64<C>,
    limits: GarbageLimits,
    /// Beside `cpus`, which a read section loads too.
    id: UniqueId,
    cpus: PerCpu<'m, Local<C>, C>,
}

impl<'m, C: Cpu> Rcu<'m, C> {
    /// Bytes that each CPU takes.
    pub const BYTES_PER_CPU: usize = PerCpu::<'m, Local<C>, C>::BYTES_PER_CPU;

    /// Read-copy-update for `nr_cpus` CPUs with little garbage; `None` when the memory does not suffice.
    pub fn carve(from: &mut impl Carve<'m>, nr_cpus: u32) -> Option<Self> {
        Self::carve_with(from, nr_cpus, GarbageLimits::SMALL)
    }

    /// As [`carve`](Self::carve), with as much garbage as `limits` say.
    pub fn carve_with(from: &mut impl Carve<'m>, nr_cpus: u32, limits: GarbageLimits) -> Option<Self> {
        Some(Self {
            epoch: CacheAligned(AtomicU64::new(garbage::FIRST_EPOCH)),
            advance: CacheAligned(SpinLock::new(Garbage::new(limits))),
            orphaned: AtomicU64::new(0),
            memory_id: AtomicU64::new(0),
            longest_grace_ns: AtomicU64::new(0),
            limits,
            id: UniqueId::new(),
            cpus: PerCpu::carve(from, nr_cpus, |_| Local::new(limits))?,
        })
    }

    /// Which RCU this is: a structure that was published for its readers is read by no others.
    #[inline(always)]
    pub fn id(&self) -> UniqueId {
        self.id
    }

    /// Retires an object: it is freed once no reader can hold it. May free others.
    /// Allocates nothing.
    ///
    /// `bytes` is how much the object counts for. Past the most that [`GarbageLimits`] allow it waits for
    /// readers. So it is never called in a read section, nor with a lock that a reader may wait for (table
    /// pages and everything further down the ladder): debug builds check it. [`Rcu::defer`] may be called
    /// there.
    ///
    /// # Panics
    /// As [`Rcu::defer`].
    ///
    /// # Safety
    /// As [`Rcu::defer`].
    pub unsafe fn retire<M: Machine<Cpu = C>>(
        &self,
        machine: &M,
        object: NonNull<RcuHead>,
        tag: usize,
        bytes: usize,
        memory: &impl DeferredFree,
    ) {
        let mut one = RcuList::new();
        // SAFETY: the caller's promise is the same, here and below.
        unsafe {
            one.push::<C>(object, tag, bytes);
            self.retire_all(machine, one, memory);
        }
    }

    /// As [`retire`](Self::retire), for objects that were unlinked together.
    ///
    /// # Panics
    /// As there.
    ///
    /// # Safety
    /// As there, for each object.
    pub unsafe fn retire_all<M: Machine<Cpu = C>>(
        &self,
        machine: &M,
        objects: RcuList,
        memory: &impl DeferredFree,
    ) {
        assert_may_wait::<C>();
        // SAFETY: the caller's promise is the same.
        if unsafe { self.defer_all(objects, memory) } {
            self.poll(machine, memory);
            while self.is_full() {
                // In every build: it would wait for itself.
                assert!(!self.reads_here(), "{OWN_SECTION}");
                C::relax();
                self.poll(machine, memory);
            }
        }
    }

    /// Retires an object, to be freed by a later [`Rcu::poll`], [`Rcu::wait`] or [`Rcu::retire`]. Never
    /// waits. True if it is time for a `poll`.
    ///
    /// # Panics
    /// If objects of another memory were retired here before; so do all calls that take a memory.
    ///
    /// # Safety
    /// 1. The object is unlinked: a read section of this RCU that begins from now on cannot find it, and only
    ///    such sections keep others from freeing it.
    /// 2. The head lies in it and is in no other use, the pointer may be used for the whole object, and the
    ///    object is not retired twice.
    /// 3. It is one that `memory` frees, `tag` says how, and it stays valid until it is freed or the
    ///    last value with the same [`id`](DeferredFree::id) is gone.
    pub unsafe fn defer(
        &self,
        object: NonNull<RcuHead>,
        tag: usize,
        bytes: usize,
        memory: &impl DeferredFree,
    ) -> bool {
        let mut one = RcuList::new();
        // SAFETY: the caller's promise is the same, here and below.
        unsafe {
            one.push::<C>(object, tag, bytes);
            self.defer_all(one, memory)
        }
    }

    /// As [`defer`](Self::defer), for objects that were unlinked together.
    ///
    /// # Panics
    /// As there.
    ///
    /// # Safety
    /// As there, for each object.
    pub unsafe fn defer_all(&self, mut objects: RcuList, memory: &impl DeferredFree) -> bool {
        self.bound(memory);
        let local = self.cpus.get_cpu();
        // Unlinked before stamped; pairs with `barrier_all` in `advance`.
        light_fence::<C>();
        let epoch = self.epoch.load(Relaxed);
        let is_due = AsymmetricCell::with(&local, garbage_of, |garbage| {
            local.count.add_own(objects.len().into());
            garbage.add::<C>(epoch, mem::take(&mut objects))
        });
        if is_due.is_none() {
            self.defer_to_orphans(&local, epoch, objects);
        }
        if !mutant!("rcu.retirement-not-noted") {
            local.reader.note_quiet_at(epoch);
        }
        // A CPU that is freeing polls when it is done.
        is_due == Some(true) && local.batches.load(Relaxed).is_multiple_of(2)
    }

    /// Tries to advance the epoch, unless it has moved since this CPU's last poll, then frees this CPU's
    /// expired objects. Does not wait for readers. May be called wherever [`Rcu::retire`] may.
    ///
    /// # Panics
    /// As [`Rcu::defer`].
    pub fn poll<M: Machine<Cpu = C>>(&self, machine: &M, memory: &impl DeferredFree) {
        let memory = self.bound(memory);
        self.note_quiet();
        if !self.look() || mutant!("rcu.move-not-noticed") {
            self.advance(|| machine.barrier_all());
            // An own advance is no reason to leave out the next one.
            if !mutant!("rcu.own-advance-taken-for-anothers") {
                self.look();
            }
        }
        self.free_expired(&memory);
    }

    /// Waits until every read section that is now under way has ended, and frees what this CPU had
    /// retired. Never called in a read section.
    ///
    /// # Panics
    /// As [`Rcu::defer`]; in a read section of this RCU.
    pub fn wait<M: Machine<Cpu = C>>(&self, machine: &M, memory: &impl DeferredFree) {
        let memory = self.bound(memory);
        assert_may_wait::<C>();
        self.wait_for_readers(machine, None);
        self.free_expired(&memory);
    }

    /// The addresses of the per-CPU data, for observers.
    pub fn extent_of_cpus(&self) -> core::ops::Range<usize> {
        self.cpus.extent()
    }

    /// Number of objects that wait; stale at once.
    pub fn garbage(&self) -> u64 {
        let own: u64 = self.cpus.iter().map(|(_, local)| local.count.load(Relaxed)).sum();
        own + self.orphaned.load(Relaxed)
    }

    /// One step of the epoch, unless a reader or another CPU's advance is in the way.
    fn advance(&self, barrier_all: impl FnOnce()) {
        let Some(_advancing) = self.advance.try_lock() else { return };
        let epoch = self.epoch.load(Relaxed);
        // A reader that is seen without the barrier saves it.
        if self.has_reader_before(epoch) {
            return;
        }
        if !self.is_everybody_quiet(epoch) {
            // After the epoch was read: words stored before the epoch became `epoch` are seen from here on.
            barrier_all();
            if self.has_reader_before(epoch) {
                return;
            }
        }
        self.epoch.store(epoch + 1, Release);
    }

    /// Says for this CPU that it is in no section, if so.
    fn note_quiet(&self) {
        self.cpus.get_cpu().reader.note_quiet_at(self.epoch.load(Relaxed));
    }

    /// Whether each CPU has said so since the epoch became `epoch`.
    fn is_everybody_quiet(&self, epoch: u64) -> bool {
        self.cpus.iter().all(|(_, local)| local.reader.is_quiet(epoch))
    }

    /// Whether a CPU is in a section that began in an earlier epoch. The loads pair with the releasing stores
    /// of leaving.
    fn has_reader_before(&self, epoch: u64) -> bool {
        let earlier = |word: u64| word != 0 && word >> 32 != epoch & DEPTH;
        self.cpus.iter().any(|(_, local)| earlier(local.reader.word.load(Acquire)))
    }

    /// Looks at the epoch and returns whether it has moved since this CPU's last look. Relaxed: what has not
    /// arrived yet costs an advance more.
    fn look(&self) -> bool {
        let epoch = self.epoch.load(Relaxed);
        let local = self.cpus.get_cpu();
        AsymmetricCell::with(&local, garbage_of, |garbage| garbage.look(epoch)).unwrap_or(false)
    }

    /// Whether this CPU is in a read section: the caller's, as preemption is off in one.
    fn reads_here(&self) -> bool {
        self.cpus.get_cpu().reader.word.load(Relaxed) != 0
    }

    fn is_full(&self) -> bool {
        let local = self.cpus.get_cpu();
        AsymmetricCell::with(&local, garbage_of, |garbage| garbage.is_full()).unwrap_or(false)
    }
}

const OWN_SECTION: &str = "waiting for readers in a read section";
const NOT_IN_USE: &str = "RCU garbage used by an interrupt handler";

/// Debug builds: no read section, and no lock that a reader may wait for.
fn assert_may_wait<C: Cpu>() {
    if cfg!(debug_assertions) {
        C::with_context(|context| {
            assert!(!context.in_read_section(), "{OWN_SECTION}");
            let spinning = context.held() >> lockdep::table(Level::Pgd).0;
            assert!(spinning == 0, "waiting for readers under a lock that a reader may wait for");
        });
    }
}

impl<C: Cpu> fmt::Debug for Rcu<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}, {} objects wait", self.epoch.load(Relaxed), self.garbage())
    }
}
