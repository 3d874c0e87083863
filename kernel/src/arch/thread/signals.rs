//! What a thread has of signals: words that `task::signal` gives a meaning. They are relaxed: touched by the
//! thread itself, or by the thread that prepares it; `on_cpu` hands them on.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use interleaf_kernel::core::signal::AlternateStack;

/// A thread's words.
pub struct ThreadSignals {
    blocked: AtomicU64,
    stack: [AtomicU64; 3],
}

impl ThreadSignals {
    pub(super) const fn new() -> Self {
        Self { blocked: AtomicU64::new(0), stack: [const { AtomicU64::new(0) }; 3] }
    }

    /// The signals that are blocked: bit 0 is signal 1.
    pub fn blocked(&self) -> u64 {
        self.blocked.load(Relaxed)
    }

    /// Blocks these and no others.
    pub fn set_blocked(&self, mask: u64) {
        self.blocked.store(mask, Relaxed);
    }

    /// The alternate stack.
    pub fn stack(&self) -> AlternateStack {
        let [at, len_bytes, flags] = self.stack.each_ref().map(|word| word.load(Relaxed));
        AlternateStack { at, len_bytes, flags: flags as u32 }
    }

    /// Sets the alternate stack.
    pub fn set_stack(&self, AlternateStack { at, len_bytes, flags }: AlternateStack) {
        let words = [at, len_bytes, flags.into()];
        self.stack.iter().zip(words).for_each(|(word, value)| word.store(value, Relaxed));
    }
}
