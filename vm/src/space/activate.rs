//! Which space a CPU translates through.
//!
//! ```text
//!   no space ── activate(None) ──► Active ── other.activate(Some(active)) ──► Active
//!      ▲                            │  │  ▲
//!      ├──────────── drop ──────────┘  │  │ resume
//!      │                enter_lazy_tlb ▼  │
//!      └──── a request to flush ──── LazyTlb
//! ```
//!
//! [`Active`] is the one proof of a loaded root, and belongs to the CPU that loaded it. The CPU is in the set
//! of CPUs that are flushed with the space from before the root is loaded until another one is, whatever
//! becomes of the value: a forgotten one costs flushes, and misses none. A space borrowed by an `Active`
//! cannot be dropped; one whose `Active` was forgotten refuses to end.

use super::AddressSpace;
use crate::machine::{Cpu, Machine};
use crate::units::CpuId;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;

/// While this exists, the CPU it was made on translates through the space. Dropping it makes the CPU
/// translate through no space.
///
/// It is the CPU's and not a thread's. While threads come and go it is kept with the CPU: a
/// scheduler activates the next thread's space from it, and while the CPU idles or runs a kernel thread it
/// may keep the root, [lazily](Self::enter_lazy_tlb). A thread that keeps it keeps preemption off, or gives
/// it up whenever the thread gives up the CPU.
///
/// # Panics
/// On another CPU than its own, activating from it or dropping it panics, and changes nothing.
#[must_use = "the CPU leaves the space once this is dropped"]
pub struct Active<'s, 'v, M: Machine> {
    space: &'s AddressSpace<'v, M>,
    /// The CPU that has the space loaded.
    cpu: CpuId,
    _not_send: PhantomData<*const ()>,
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Makes this CPU translate through the space instead of `previous`, which it translates through now.
    /// Every translation that it has cached before is dropped. From here until the CPU translates through
    /// another space it is flushed with this one.
    ///
    /// # Panics
    /// Where `previous` is `None` although this CPU has a space loaded, or is another CPU's. Nothing has
    /// changed then.
    pub fn activate<'s>(&'s self, previous: Option<Active<'_, 'v, M>>) -> Active<'s, 'v, M> {
        let from = previous.and_then(|previous| previous.into_space_of(self));
        self.vm.shootdown.switch(
            self.vm.machine,
            from.map(|from| &from.entries.tlb),
            Some((&self.entries.tlb, self.entries.table.root_table())),
        );
        Active { space: self, cpu: M::Cpu::id(), _not_send: PhantomData }
    }

    /// The [`Active`] of this CPU if it has this space loaded: one that was forgotten, as a scheduler does
    /// that keeps addresses of spaces with its CPUs. Where the CPU kept the space lazily, it runs it again.
    pub fn active_here(&self) -> Option<Active<'_, 'v, M>> {
        let cpu = self.vm.shootdown.resume(&self.entries.tlb)?;
        Some(Active { space: self, cpu, _not_send: PhantomData })
    }

    /// Whether no CPU translates through the space. Pairs with the release of a CPU that leaves it.
    pub fn runs_nowhere(&self) -> bool {
        self.entries.tlb.is_loaded_nowhere()
    }
}

impl<'s, 'v, M: Machine> Active<'s, 'v, M> {
    /// The space.
    pub fn space(&self) -> &'s AddressSpace<'v, M> {
        self.space
    }

    /// The CPU keeps the space loaded, but runs no thread of it for now: it gives up the ownership of the
    /// space's tables, stays in the set of CPUs that are flushed with the space, and leaves the space when
    /// it is asked to flush. It touches no memory of the space meanwhile.
    ///
    /// # Panics
    /// Where the CPU has left the space by way of another [`Active`].
    pub fn enter_lazy_tlb(self) -> LazyTlb<'s, 'v, M> {
        assert_own_cpu::<M::Cpu>(self.cpu);
        let active = ManuallyDrop::new(self);
        let (space, cpu) = (active.space, active.cpu);
        space.entries.table.release_ownership();
        space.vm.shootdown.enter_lazy(&space.entries.tlb);
        LazyTlb { space, cpu, _not_send: PhantomData }
    }

    /// Ends as the previous space of one that is activated; where that is of another system, by leaving.
    fn into_space_of(self, next: &AddressSpace<'v, M>) -> Option<&'s AddressSpace<'v, M>> {
        if !core::ptr::eq(self.space.vm, next.vm) {
            return None;
        }
        assert_own_cpu::<M::Cpu>(self.cpu);
        let active = ManuallyDrop::new(self);
        active.space.entries.table.release_ownership();
        Some(active.space)
    }
}

fn assert_own_cpu<C: Cpu>(owner: CpuId) {
    let this = C::id();
    assert!(this == owner, "{this:?} gives up a space that {owner:?} has loaded");
}

impl<M: Machine> Drop for Active<'_, '_, M> {
    fn drop(&mut self) {
        assert_own_cpu::<M::Cpu>(self.cpu);
        self.space.entries.table.release_ownership();
        self.space.vm.shootdown.switch(self.space.vm.machine, Some(&self.space.entries.tlb), None);
    }
}

/// A space that this CPU has loaded and runs no thread of: an idle CPU, or one that runs a kernel thread. It
/// leaves the space when it is asked to flush, by loading the machine's own root
/// ([`Machine::load_root`] of `None`), or when this is dropped.
///
/// It is the CPU's, as [`Active`].
///
/// # Panics
/// On another CPU than its own, resuming or dropping it panics, and changes nothing.
#[must_use = "the CPU leaves the space once this is dropped"]
pub struct LazyTlb<'s, 'v, M: Machine> {
    space: &'s AddressSpace<'v, M>,
    cpu: CpuId,
    _not_send: PhantomData<*const ()>,
}

impl<'s, 'v, M: Machine> LazyTlb<'s, 'v, M> {
    /// The space.
    pub fn space(&self) -> &'s AddressSpace<'v, M> {
        self.space
    }

    /// The CPU runs the space again, or activates another one from it. `None` where it has left the space
    /// meanwhile.
    pub fn resume(self) -> Option<Active<'s, 'v, M>> {
        ManuallyDrop::new(self).active()
    }

    fn active(&self) -> Option<Active<'s, 'v, M>> {
        assert_own_cpu::<M::Cpu>(self.cpu);
        self.space.active_here()
    }
}

impl<M: Machine> Drop for LazyTlb<'_, '_, M> {
    fn drop(&mut self) {
        drop(self.active());
    }
}

impl<M: Machine> fmt::Debug for LazyTlb<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} on {:?}, lazily", self.space, self.cpu)
    }
}

impl<M: Machine> fmt::Debug for Active<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} on {:?}", self.space, self.cpu)
    }
}
