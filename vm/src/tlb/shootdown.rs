//! The CPUs' side: the space that each has loaded, the generation it has seen, and its flush requests.

use super::SpaceTlb;
use super::mailbox::{FlushRequest, Mailbox};
use crate::machine::{Cpu, FlushRange, Machine, RootTable};
use crate::sync::atomic::{AtomicU64, Ordering::*, fence};
use crate::sync::{
    CacheAligned, Carve, Event, Handler, PerCpu, SpinLock, lockdep, wait_until, with_interrupts_off,
};
use crate::units::{CpuId, CpuMask, CpuWords, VpnRange};
use core::fmt;

#[cfg(all(test, loom))]
#[path = "tests/loom_lazy.rs"]
mod loom_lazy;
#[cfg(all(test, loom))]
#[path = "tests/loom_shootdown.rs"]
mod loom_shootdown;

/// One CPU's state.
pub(super) struct CpuTlb<C: Cpu> {
    /// The space whose root this CPU is about to load, 0 for none. Written before the generation is read.
    entering: AtomicU64<C>,
    /// The space whose root is loaded, 0 for none. Written by this CPU, with release after the root is
    /// loaded, and before `entering` is cleared.
    pub(super) loaded: AtomicU64<C>,
    /// The generation of the loaded space that this CPU's translations are at least as new as. Written by
    /// this CPU with interrupts off, with release after the flush: the acknowledgement that flushers wait
    /// for.
    pub(super) seen: AtomicU64<C>,
    /// 1 while this CPU keeps the loaded space and runs no thread of it: see [`lazy`](super::lazy). Read and
    /// written by this CPU alone, so relaxed.
    pub(super) lazy: AtomicU64<C>,
    /// Written by the CPUs that ask, so not on the line of what the CPU itself writes.
    pub(super) mailbox: CacheAligned<SpinLock<Mailbox, C, { lockdep::MAILBOX.0 }>>,
    /// See [`ShootdownStats`].
    sent: AtomicU64<C>,
    answered: AtomicU64<C>,
    pub(super) lazy_entered: AtomicU64<C>,
    pub(super) lazy_left: AtomicU64<C>,
}

/// The flush state of all CPUs of a machine.
pub struct Shootdown<'m, C: Cpu> {
    pub(super) cpus: PerCpu<'m, CpuTlb<C>, C>,
}

/// How often CPUs did something, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShootdownStats {
    /// Interrupts sent to flush, counted once for each target.
    pub sent: u64,
    /// Interrupts answered.
    pub answered: u64,
    /// Times that a CPU began to keep a space without running a thread of it.
    pub lazy_entered: u64,
    /// Times that a CPU left a space that it kept so, because it was asked to flush or the space ended.
    pub lazy_left: u64,
}

impl ShootdownStats {
    /// What happened since `before`, which was read earlier.
    pub fn since(&self, before: &ShootdownStats) -> ShootdownStats {
        ShootdownStats {
            sent: self.sent.wrapping_sub(before.sent),
            answered: self.answered.wrapping_sub(before.answered),
            lazy_entered: self.lazy_entered.wrapping_sub(before.lazy_entered),
            lazy_left: self.lazy_left.wrapping_sub(before.lazy_left),
        }
    }
}

impl<'m, C: Cpu> Shootdown<'m, C> {
    /// The state of `nr_cpus` CPUs that have no space loaded. `None` where memory does not suffice, or
    /// [`Cpu::CpuWords`] cannot name them all.
    pub fn carve(from: &mut impl Carve<'m>, nr_cpus: u32) -> Option<Self> {
        if nr_cpus > C::CpuWords::MAX_CPUS {
            return None;
        }
        let cpus = PerCpu::carve(from, nr_cpus, |_| CpuTlb {
            entering: AtomicU64::new(0),
            loaded: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            lazy: AtomicU64::new(0),
            mailbox: CacheAligned(SpinLock::new(Mailbox::new(0))),
            sent: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            lazy_entered: AtomicU64::new(0),
            lazy_left: AtomicU64::new(0),
        })?;
        Some(Self { cpus })
    }

    /// Makes this CPU leave `from`, the space that it has loaded (if any), and translate through `to` with
    /// its root table (if any), and through no translation that it cached before.
    ///
    /// # Panics
    /// Where `from` is not what this CPU has loaded. Nothing has changed then.
    pub(crate) fn switch<M: Machine<Cpu = C>>(
        &self,
        machine: &M,
        from: Option<&SpaceTlb<C>>,
        to: Option<(&SpaceTlb<C>, RootTable)>,
    ) {
        let own = self.cpus.get_cpu();
        let named = from.map_or(0, SpaceTlb::id);
        assert!(own.loaded.load(Relaxed) == named, "a CPU leaves a space that it has not loaded");
        with_interrupts_off::<C, _>(|| {
            let (id, root) = to.map_or((0, None), |(space, root)| (space.id(), Some(root)));
            // Release: a CPU that reads it also sees this CPU's earlier stores of `loaded`.
            own.entering.store(id, if mutant!("shootdown.entering-relaxed") { Relaxed } else { Release });
            own.lazy.store(0, Relaxed);
            *own.mailbox.lock() = Mailbox::new(id);
            let mut seen = 0;
            if let Some((space, _)) = to {
                space.cpus.insert(C::id());
                // P7, pairs with the fence in `flush`: a flusher that sees neither the mask's bit nor
                // `entering` advanced the generation before this read, and made its edit before that.
                if !mutant!("shootdown.enter-fence-skipped") {
                    fence::<C>(SeqCst);
                }
                seen = space.generation();
            }
            machine.load_root(root);
            own.seen.store(seen, Release);
            own.loaded.store(id, Release);
            own.entering.store(0, Release);
            // A switch from a space to itself loads its root anew; the CPU stays one that runs it.
            if let Some(space) = from
                && space.id() != id
            {
                space.cpus.remove(C::id());
            }
            self.catch_up(machine, &own);
        });
    }

    /// Flushes pages, edited before the call, on every CPU that runs `space`. Returns when all have done
    /// so. What copies translations is told first, whether or not a CPU runs the space.
    #[inline(always)]
    pub fn flush<M: Machine<Cpu = C>>(&self, machine: &M, space: &SpaceTlb<C>, flush: FlushRange) {
        machine.note_flush(space.id(), flush);
        self.flush_cpus(machine, space, flush.named);
    }

    /// Has every CPU that runs the space drop the named pages.
    fn flush_cpus<M: Machine<Cpu = C>>(&self, machine: &M, space: &SpaceTlb<C>, named: VpnRange) {
        let own = self.cpus.get_cpu();
        let generation = space.advance();
        // P7, pairs with the fence in `switch`.
        fence::<C>(SeqCst);
        let (me, request) = (C::id(), FlushRequest { generation, named });
        if space.cpus.contains(me) && !mutant!("shootdown.own-cpu-skipped") {
            self.flush_local(machine, space, request);
        }
        if !space.cpus.has_other_than(me) {
            return;
        }
        let mut targets = CpuMask::new();
        self.post(space, request, &mut targets);
        if !targets.is_empty() {
            own.sent.add_own(u64::from(targets.count()));
            machine.interrupt(targets.as_mask());
        }
        // CPUs that were sent no request are waited for as well: a CPU that is leaving has nothing to answer,
        // but its walker follows the old root until the next one is loaded. The mask is read anew: a CPU that
        // is in it no more has left, and one that came after the fence has seen the generation.
        if !mutant!("shootdown.wait-skipped") {
            Self::others(space).for_each(|cpu| {
                wait_until::<C>(|| self.has_seen(cpu, space, generation));
                self.clear_departed(cpu, space);
            });
        }
    }

    /// The CPUs in the space's mask but this one, at the moment when each word of the mask is read.
    fn others(space: &SpaceTlb<C>) -> impl Iterator<Item = CpuId> {
        let me = C::id();
        space.cpus.iter_after(me).filter(move |&cpu| cpu != me)
    }

    /// Handles a request of this CPU itself at once, with all requests that other CPUs have posted meanwhile.
    fn flush_local<M: Machine<Cpu = C>>(&self, machine: &M, space: &SpaceTlb<C>, request: FlushRequest) {
        let own = self.cpus.of(C::id());
        with_interrupts_off::<C, _>(|| {
            if own.loaded.load(Relaxed) == space.id() {
                let _ = own.mailbox.lock().post(request);
                self.catch_up(machine, own);
            }
        });
    }

    /// Puts the request into the mailboxes of those other CPUs that have the space loaded and are behind, and
    /// adds those to `targets` that are to be interrupted: the poster that found the mailbox empty interrupts
    /// for all.
    fn post(&self, space: &SpaceTlb<C>, request: FlushRequest, targets: &mut CpuMask<C::CpuWords>) {
        for cpu in Self::others(space).filter(|&cpu| !self.has_seen(cpu, space, request.generation)) {
            with_interrupts_off::<C, _>(|| {
                let mut mailbox = self.cpus.of(cpu).mailbox.lock();
                if mailbox.space == space.id() && mailbox.post(request) {
                    targets.insert(cpu);
                }
            });
        }
    }

    /// Whether `cpu` translates through no entry older than `generation` of `space`: it has the space loaded
    /// and has seen that generation, or has it neither loaded nor half loaded. Read in the reverse order of
    /// `switch`'s stores, with which it pairs.
    fn has_seen(&self, cpu: CpuId, space: &SpaceTlb<C>, generation: u64) -> bool {
        let cpu = self.cpus.of(cpu);
        if mutant!("shootdown.lazy-cpu-left-out") && cpu.lazy.load(Relaxed) != 0 {
            return true;
        }
        let entering = cpu.entering.load(Acquire);
        if cpu.loaded.load(Acquire) == space.id() {
            cpu.seen.load(Acquire) >= generation
        } else {
            entering != space.id()
        }
    }

    /// Answers the requests in this CPU's mailbox by flushing. Interrupts are off.
    fn catch_up<M: Machine<Cpu = C>>(&self, machine: &M, own: &CpuTlb<C>) {
        let mailbox = own.mailbox.lock().take();
        if let Some(newest) = mailbox.catch_up(own.seen.load(Relaxed)).apply(machine) {
            own.seen.store(newest, Release);
        }
    }

    /// The addresses of all CPUs' states, for observers.
    pub fn extent(&self) -> core::ops::Range<usize> {
        self.cpus.extent()
    }

    /// The requests that all CPUs have sent and answered so far.
    pub fn stats(&self) -> ShootdownStats {
        self.cpus.iter().fold(ShootdownStats::default(), |sum, (_, cpu)| ShootdownStats {
            sent: sum.sent + cpu.sent.load(Relaxed),
            answered: sum.answered + cpu.answered.load(Relaxed),
            lazy_entered: sum.lazy_entered + cpu.lazy_entered.load(Relaxed),
            lazy_left: sum.lazy_left + cpu.lazy_left.load(Relaxed),
        })
    }
}

impl<C: Cpu, M: Machine<Cpu = C>> Handler<M> for Shootdown<'static, C> {
    type State<'x> = Shootdown<'x, C>;
    const EVENT: Event = Event::Interrupt;

    fn carve<'x>(from: &mut impl Carve<'x>, machine: &M) -> Option<Shootdown<'x, C>> {
        Shootdown::carve(from, machine.nr_cpus())
    }

    fn shorten<'a, 's, 'l: 's>(state: &'a Shootdown<'l, C>) -> &'a Shootdown<'s, C> {
        state
    }

    fn handle(state: &Shootdown<'_, C>, machine: &M) {
        let own = state.cpus.get_cpu();
        with_interrupts_off::<C, _>(|| {
            own.answered.add_own(1);
            if own.lazy.load(Relaxed) != 0 {
                state.leave_if_asked(machine, &own);
            } else {
                state.catch_up(machine, &own);
            }
        });
    }
}

impl<C: Cpu> fmt::Debug for Shootdown<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shootdown").field("cpus", &self.cpus).finish()
    }
}
