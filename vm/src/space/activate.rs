//! Which space a CPU translates through.
//!
//! ```text
//!   no space ── activate(None) ──► Active ── other.activate(Some(active)) ──► Active
//!                                    │ drop
//!                                    ▼
//!                                 no space
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
/// It is the CPU's and not a thread's. Who keeps it while threads come and go keeps it with the CPU: a
/// scheduler activates the next thread's space from it, and a kernel thread or an idle CPU may leave the root
/// loaded, [lazily](Self::enter_lazy_tlb). Whoever keeps it as a thread keeps preemption off, or gives it up
/// whenever the thread gives up the CPU.
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
            from.map(|from| &from.tlb),
            Some((&self.tlb, self.table.root_table())),
        );
        Active { space: self, cpu: M::Cpu::id(), _not_send: PhantomData }
    }

    /// The [`Active`] of this CPU if it has this space loaded: one that was forgotten, as a scheduler does
    /// that keeps addresses of spaces with its CPUs.
    pub fn active_here(&self) -> Option<Active<'_, 'v, M>> {
        let cpu = self.vm.shootdown.cpu_that_has_loaded(&self.tlb)?;
        Some(Active { space: self, cpu, _not_send: PhantomData })
    }

    /// Whether no CPU translates through the space. Pairs with the release of a CPU that leaves it.
    pub fn runs_nowhere(&self) -> bool {
        self.tlb.is_loaded_nowhere()
    }
}

impl<'s, 'v, M: Machine> Active<'s, 'v, M> {
    /// The space.
    pub fn space(&self) -> &'s AddressSpace<'v, M> {
        self.space
    }

    /// The CPU keeps the space loaded, but runs no thread of it for now: it gives up the ownership of the
    /// space's tables, and stays in the set of CPUs that are flushed with the space.
    pub fn enter_lazy_tlb(&self) {
        self.space.table.release_ownership();
    }

    /// Ends as the previous space of one that is activated; where that is of another system, by leaving.
    fn into_space_of(self, next: &AddressSpace<'v, M>) -> Option<&'s AddressSpace<'v, M>> {
        if !core::ptr::eq(self.space.vm, next.vm) {
            return None;
        }
        self.assert_own_cpu();
        let active = ManuallyDrop::new(self);
        active.space.table.release_ownership();
        Some(active.space)
    }

    fn assert_own_cpu(&self) {
        let this = M::Cpu::id();
        assert!(this == self.cpu, "{this:?} gives up a space that {:?} has loaded", self.cpu);
    }
}

impl<M: Machine> Drop for Active<'_, '_, M> {
    fn drop(&mut self) {
        self.assert_own_cpu();
        self.space.table.release_ownership();
        self.space.vm.shootdown.switch(self.space.vm.machine, Some(&self.space.tlb), None);
    }
}

impl<M: Machine> fmt::Debug for Active<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} on {:?}", self.space, self.cpu)
    }
}
