//! Read sections: the guard, and the word of a CPU that says that it reads.

use super::{Local, Rcu};
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*, light_fence};
use crate::sync::{CpuGuard, LastHits, PreemptOff, UniqueId};
use core::fmt;

/// Lower half of a reader's word: how many sections nest. Upper half: the epoch at which the outermost began.
pub(super) const DEPTH: u64 = u32::MAX as u64;

/// The line that each read section of the CPU writes.
pub(super) struct Reader<C: Cpu> {
    /// 0: no reader; else epoch and depth, see [`DEPTH`]. Written by its CPU alone, by a load and a store: a
    /// handler of interrupts that comes between them leaves no section open (rule 2 of `Cpu`). Pairs with
    /// `barrier_all` in `advance`.
    pub(super) word: AtomicU64<C>,
    /// The last epoch that the CPU has seen between two sections, when it retired or polled; 0 before the
    /// first. Written by its CPU alone; the releasing store pairs with the acquiring load in `is_quiet`.
    quiet: AtomicU64<C>,
    hits: LastHits<C>,
}

impl<C: Cpu> Reader<C> {
    /// Of a CPU that reads nothing.
    pub(super) const fn new() -> Self {
        Self { word: AtomicU64::new(0), quiet: AtomicU64::new(0), hits: LastHits::new() }
    }

    /// Notes that the CPU is in no section, if so: all that began are over, and those that begin from now on
    /// see `epoch` or a later one. Called on the CPU, which has just loaded `epoch`. Of a CPU that retires
    /// again and again in one epoch, two loads of its own lines.
    #[inline]
    pub(super) fn note_quiet_at(&self, epoch: u64) {
        let reads = self.word.load(Relaxed) != 0 && !mutant!("rcu.quiet-in-section");
        if self.quiet.load(Relaxed) != epoch && !reads {
            self.quiet.store(epoch, Release);
        }
    }

    /// Whether the CPU has been between two sections since the epoch became `epoch`.
    pub(super) fn is_quiet(&self, epoch: u64) -> bool {
        self.quiet.load(Acquire) == epoch
    }
}

/// A read section. What was reachable when it began stays in memory until it ends; preemption is off. It ends
/// on the thread that began it:
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// fn check<C: interleaf::machine::Cpu>() { is_send::<interleaf::sync::ReadGuard<'static, C>>(); }
/// ```
#[must_use = "the read section ends once this is dropped"]
pub struct ReadGuard<'a, C: Cpu> {
    local: CpuGuard<'a, Local<C>, C>,
    rcu: &'a Rcu<'a, C>,
}

// SAFETY: it has an `CpuGuard`, which does, from before it is made until it is dropped.
unsafe impl<C: Cpu> PreemptOff<C> for ReadGuard<'_, C> {}

impl<C: Cpu> Rcu<'_, C> {
    /// Begins a read section. Sections nest, and may end in any order.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> ReadGuard<'_, C> {
        let local = self.cpus.get_cpu();
        if cfg!(debug_assertions) {
            C::with_context(|context| context.read_section_entered());
        }
        let word = local.reader.word.load(Relaxed);
        // Acquire: pairs with the store of an advance that has executed no barrier.
        let order = if mutant!("rcu.entered-relaxed") { Relaxed } else { Acquire };
        let word = if word == 0 { self.epoch.load(order) << 32 } else { nested(&local.reader, word) };
        local.reader.word.store(word + 1, Release);
        if !mutant!("rcu.read-fence-skipped") {
            light_fence::<C>();
        }
        ReadGuard { local, rcu: self }
    }
}

/// Prepares an inner section, which has no last hit; see `last_hit`. Returns the word of the CPU, which is in
/// a section already.
///
/// # Panics
/// If more sections nest than the word counts: leaked guards, as nothing else nests so deep.
#[cold]
#[inline(never)]
fn nested<C: Cpu>(reader: &Reader<C>, word: u64) -> u64 {
    assert!(word & DEPTH < DEPTH, "read sections nest too deep");
    if !mutant!("last-hit.kept-for-inner-section") {
        reader.hits.clear();
    }
    word
}

#[cold]
#[inline(never)]
#[track_caller]
fn foreign_section() -> ! {
    panic!("a read section of another RCU: it does not keep in memory what is read here")
}

impl<C: Cpu> ReadGuard<'_, C> {
    /// The RCU whose read section it is.
    #[inline(always)]
    pub fn rcu(&self) -> UniqueId {
        self.rcu.id
    }

    /// What this CPU found last, among all structures that are read under this RCU.
    #[inline(always)]
    pub(in crate::sync) fn last_hits(&self) -> &LastHits<C> {
        &self.local.reader.hits
    }

    /// Whether the CPU is in one read section of this RCU, this one.
    #[inline(always)]
    pub(in crate::sync) fn is_only(&self) -> bool {
        self.local.reader.word.load(Relaxed) & DEPTH == 1
    }

    /// As [`assert_of`](Self::assert_of), where the RCU itself is at hand.
    ///
    /// # Panics
    /// As that.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn assert_is_of(&self, rcu: Option<&Rcu<'_, C>>) {
        let is_of = rcu.is_some_and(|rcu| core::ptr::addr_eq(self.rcu, rcu));
        if !is_of && !mutant!("rcu.tree-section-not-checked") {
            foreign_section();
        }
    }

    /// Checks that this is a read section of the RCU `rcu`, under which a structure is retired. One load and
    /// one compare.
    ///
    /// # Panics
    /// If it is one of another RCU.
    #[inline(always)]
    #[track_caller]
    pub fn assert_of(&self, rcu: impl Into<Option<UniqueId>>) {
        if Some(self.rcu.id) != rcu.into() && !mutant!("rcu.section-not-checked") {
            foreign_section();
        }
    }
}

impl<C: Cpu> Drop for ReadGuard<'_, C> {
    #[inline]
    fn drop(&mut self) {
        let word = self.local.reader.word.load(Relaxed);
        let word = if word & DEPTH == 1 { 0 } else { word - 1 };
        self.local.reader.word.store(word, Release);
        if cfg!(debug_assertions) {
            C::with_context(|context| context.read_section_left());
        }
    }
}

impl<C: Cpu> fmt::Debug for ReadGuard<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("reading")
    }
}
