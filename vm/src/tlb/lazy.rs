//! CPUs that keep a space loaded and run no thread of it.
//!
//! ```text
//!              enter_lazy                    request
//!   running ───────────────► lazy ──────────────────────────► has left (no space loaded)
//!      ▲                      │                                          │
//!      └──────── resume ──────┘           switch, with all of its costs  │
//!      └─────────────────────────────────────────────────────────────────┘
//! ```
//!
//! An idle CPU, or one that runs a kernel thread, keeps the root of the last space that it ran: coming back
//! is free where nothing was flushed meanwhile. It stays in the space's mask. To the first request it answers
//! by leaving the space: it loads the machine's own root, and is asked no more. So a CPU that does not run a
//! space is interrupted for it at most once from each time that it ran it, however often the others flush.
//!
//! *Lazy* is a word of the CPU's own: the interrupt that acts on it runs on the same CPU, so no order between
//! CPUs depends on it. Leaving is the second half of a switch to no space, in the same order; flushers wait
//! for it as for any CPU that leaves, and so does whatever is freed after a flush: tables too.
//!
//! # How the CPU leaves the mask
//!
//! The interrupt knows the space by its number alone. The flushers whose request made the CPU leave still
//! wait for it, and have the space at hand: they clear the bit ([`Shootdown::clear_departed`]), under the
//! lock of the CPU's mailbox. A CPU that comes back puts the space's number into its mailbox under the same
//! lock before it sets its bit:
//!
//! ```text
//!   flusher   lock { mailbox is for another space, another is loaded: clear the bit }
//!   CPU                                             lock { mailbox is for this space }  set the bit
//! ```
//!
//! In this order the bit is set at last; in the other one the flusher finds the space's number, and leaves
//! the bit alone. A CPU that is on its way out by a switch has the space loaded still, or clears the bit
//! itself.
//!
//! # The end of a space
//!
//! A space ends when it cannot be activated any more: then every CPU in its mask keeps it lazily, and one
//! request makes all of them leave ([`Shootdown::evict_lazy`]). A CPU that runs it all the same stays in the
//! mask, and the space refuses to end.

use super::mailbox::Mailbox;
use super::shootdown::CpuTlb;
use super::{Shootdown, SpaceTlb};
use crate::machine::{Cpu, FlushRange, Machine};
use crate::sync::atomic::Ordering::*;
use crate::sync::with_interrupts_off;
use crate::units::{CpuId, VpnRange};

impl<C: Cpu> Shootdown<'_, C> {
    /// This CPU, if it has the space loaded. Where it kept it lazily, it runs it again from here on.
    pub(crate) fn resume(&self, space: &SpaceTlb<C>) -> Option<CpuId> {
        let own = self.cpus.get_cpu();
        let is_loaded = || own.loaded.load(Relaxed) == space.id();
        if is_loaded() {
            own.lazy.store(0, Relaxed);
        }
        // Asked again: an interrupt may have come in between.
        is_loaded().then(C::id)
    }

    /// From here on this CPU, which has the space loaded, runs no thread of it.
    ///
    /// # Panics
    /// Where this CPU has not loaded the space.
    pub(crate) fn enter_lazy(&self, space: &SpaceTlb<C>) {
        let own = self.cpus.get_cpu();
        assert!(own.loaded.load(Relaxed) == space.id(), "a CPU keeps a space that it has not loaded");
        own.lazy.store(1, Relaxed);
        own.lazy_entered.add_own(1);
    }

    /// Leaves the space that this CPU keeps lazily, if a request that it has not answered waits for it.
    /// Interrupts are off.
    pub(super) fn leave_if_asked<M: Machine<Cpu = C>>(&self, machine: &M, own: &CpuTlb<C>) {
        let mut mailbox = own.mailbox.lock();
        if !mailbox.take().asks_for_more(own.seen.load(Relaxed)) {
            return;
        }
        // No more requests: flushers only wait for `loaded` now.
        *mailbox = Mailbox::new(0);
        drop(mailbox);
        Self::leave(machine, own);
    }

    /// Leaves the space that this CPU keeps lazily and takes no more requests for. Interrupts are off.
    fn leave<M: Machine<Cpu = C>>(machine: &M, own: &CpuTlb<C>) {
        if mutant!("shootdown.left-before-root") {
            own.loaded.store(0, Release);
        }
        machine.load_root(None);
        own.lazy.store(0, Relaxed);
        own.lazy_left.add_own(1);
        // Release, after the root is loaded: pairs with `has_seen` and `clear_departed`.
        own.loaded.store(0, Release);
    }

    /// Makes every CPU that keeps the space lazily leave it: this one by itself, the others by a request to
    /// flush all of `range`, the space's pages. Returns when they have, and are in the mask no more. CPUs
    /// that run the space stay in it.
    #[cold]
    #[inline(never)]
    pub(crate) fn evict_lazy<M: Machine<Cpu = C>>(&self, machine: &M, space: &SpaceTlb<C>, range: VpnRange) {
        with_interrupts_off::<C, _>(|| {
            let own = self.cpus.get_cpu();
            if own.lazy.load(Relaxed) != 0 && own.loaded.load(Relaxed) == space.id() {
                *own.mailbox.lock() = Mailbox::new(0);
                Self::leave(machine, &own);
                space.cpus.remove(C::id());
            }
        });
        // The end of a space tells what copies translations by itself.
        self.flush(machine, space, FlushRange::of_bits(range));
    }

    /// Takes a CPU that has left the space out of its mask, if it left by an interrupt and has not come back.
    /// Called by a flusher that has waited for the CPU.
    pub(super) fn clear_departed(&self, cpu: CpuId, space: &SpaceTlb<C>) {
        let state = self.cpus.of(cpu);
        let is_loaded = || state.loaded.load(Acquire) == space.id();
        if is_loaded() || mutant!("shootdown.departed-kept") {
            return;
        }
        with_interrupts_off::<C, _>(|| {
            let mailbox = state.mailbox.lock();
            let returns = mailbox.space == space.id() && !mutant!("shootdown.return-ignored");
            if !returns && !is_loaded() {
                space.cpus.remove(cpu);
            }
        });
    }
}
