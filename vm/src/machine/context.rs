//! The library's state of each thread: the locks it holds, by rank, and whether it is in an RCU read section.
//!
//! The lock ladder says that ranks are taken in ascending order (`sync::lockdep`). It belongs to the thread,
//! not to the CPU: a thread that holds a sleeping lock may move between CPUs. Debug builds keep and check it;
//! release builds never touch it. Whether a handler of interrupts runs is noted in every build.

use core::cell::Cell;
use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A rung of the lock ladder. A thread takes locks in ascending rank; 0 is taken first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u8);

impl Rank {
    /// Ranks run from 0 to 62.
    pub const MAX: Rank = Rank(62);

    /// The rank's bit in [`Context::held`].
    ///
    /// # Panics
    /// If the rank is above [`Rank::MAX`].
    fn bit(self) -> u64 {
        assert!(self <= Self::MAX, "lock ladder: no rank {}", self.0);
        1 << self.0
    }
}

/// The library's per-thread state. One value for each thread, made by the platform, reached through
/// [`Cpu::with_context`](super::Cpu::with_context).
///
/// Only the library changes it; a platform can look. It belongs to one thread:
///
/// ```compile_fail,E0277
/// fn is_sync<T: Sync>() {}
/// is_sync::<interleaf::machine::Context>();
/// ```
///
/// ```compile_fail,E0624
/// fn forge<C: interleaf::machine::Cpu>() {
///     C::with_context(|context| context.read_section_left());
/// }
/// ```
#[derive(Debug, Default)]
pub struct Context {
    held: Cell<u64>,
    read_sections: Cell<u32>,
    helper_ns: Cell<u64>,
    in_handler: Cell<bool>,
    /// 0 until it is asked for.
    thread_number: Cell<u32>,
}

impl Context {
    /// The state of a thread that holds nothing.
    pub const fn new() -> Self {
        Self {
            held: Cell::new(0),
            read_sections: Cell::new(0),
            helper_ns: Cell::new(0),
            in_handler: Cell::new(false),
            thread_number: Cell::new(0),
        }
    }

    /// A number of the thread, which no other thread of the program ever has.
    ///
    /// # Panics
    /// Where all numbers were given out.
    #[inline]
    pub(crate) fn thread_number(&self) -> NonZeroU32 {
        NonZeroU32::new(self.thread_number.get()).unwrap_or_else(|| self.number_thread())
    }

    #[cold]
    fn number_thread(&self) -> NonZeroU32 {
        static LAST: AtomicU32 = AtomicU32::new(0);
        // Relaxed: the number only has to be unlike all others.
        let is_shared = mutant!("context.threads-share-a-number");
        let last = LAST.fetch_update(Relaxed, Relaxed, |last| last.checked_add(u32::from(!is_shared)));
        let number = last.ok().and_then(|last| NonZeroU32::MIN.checked_add(last));
        let number = number.expect("numbers of threads");
        self.thread_number.set(number.get());
        number
    }

    /// Whether a lock of `rank` may be waited for: every lock held has a lower rank.
    pub(crate) fn may_acquire(&self, rank: Rank) -> bool {
        self.held.get() < rank.bit()
    }

    /// Notes that a lock of `rank` is now held.
    pub(crate) fn note_acquired(&self, rank: Rank) {
        self.held.set(self.held.get() | rank.bit());
    }

    /// Notes that the lock of `rank` is released.
    pub(crate) fn note_released(&self, rank: Rank) {
        self.held.set(self.held.get() & !rank.bit());
    }

    /// Bit `n` is set while a lock of rank `n` is held.
    pub fn held(&self) -> u64 {
        self.held.get()
    }

    /// Notes the start of an RCU read section.
    pub(crate) fn read_section_entered(&self) {
        self.read_sections.set(self.read_sections.get() + 1);
    }

    /// Notes the end of an RCU read section.
    pub(crate) fn read_section_left(&self) {
        self.read_sections.set(self.read_sections.get() - 1);
    }

    /// Whether the thread is in an RCU read section, where it must not sleep.
    pub fn in_read_section(&self) -> bool {
        self.read_sections.get() > 0
    }

    /// Sets the ranks that this thread holds to those of the thread that it works for. Returns the ranks
    /// before, for the next call.
    pub(crate) fn inherit_held(&self, held: u64) -> u64 {
        self.held.replace(held)
    }

    /// Notes whether a handler of interrupts runs, in place of the thread that it interrupts. Returns what
    /// was noted before.
    pub(crate) fn note_handler(&self, runs: bool) -> bool {
        self.in_handler.replace(runs)
    }

    /// Whether a handler of interrupts runs, in place of the thread.
    pub fn in_handler(&self) -> bool {
        self.in_handler.get()
    }

    /// Adds `ns` nanoseconds that helpers worked for this thread.
    pub(crate) fn add_helper_ns(&self, ns: u64) {
        self.helper_ns.set(self.helper_ns.get().saturating_add(ns));
    }

    /// Nanoseconds that helpers have worked for this thread, since it was made or [`Context::take_helper_ns`]
    /// was called.
    pub fn helper_ns(&self) -> u64 {
        self.helper_ns.get()
    }

    /// Takes the nanoseconds that helpers have worked for this thread, to charge them to another account.
    pub fn take_helper_ns(&self) -> u64 {
        self.helper_ns.replace(0)
    }
}
