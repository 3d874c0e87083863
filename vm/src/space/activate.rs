//! Loading a space on a CPU, and unloading it.

use super::AddressSpace;
use crate::machine::Machine;
use core::fmt;
use core::marker::PhantomData;

/// While this exists, the CPU it was made on translates through the space. Preemption must be off, or the
/// platform must leave and enter at each switch of threads ([`AddressSpace::enter_cpu`],
/// [`AddressSpace::leave_cpu`]).
#[must_use = "the CPU leaves the space once this is dropped"]
pub struct ActiveSpace<'a, 'v, M: Machine> {
    space: &'a AddressSpace<'v, M>,
    _cpu: PhantomData<*const ()>,
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Loads the space on this CPU, which runs no other, until the result is dropped.
    pub fn run(&self) -> ActiveSpace<'_, 'v, M> {
        self.enter_cpu();
        ActiveSpace { space: self, _cpu: PhantomData }
    }

    /// Makes this CPU, which runs no space, translate through this one. It is flushed with the space until it
    /// leaves.
    pub fn enter_cpu(&self) {
        self.vm.shootdown.switch(self.vm.machine, None, Some((&self.tlb, self.root())));
    }

    /// Makes this CPU, which runs this space, translate through no space.
    pub fn leave_cpu(&self) {
        self.table.release_ownership();
        self.vm.shootdown.switch(self.vm.machine, Some(&self.tlb), None);
    }

    /// Makes this CPU, which runs `from`, translate through this space: one load of the root.
    pub fn switch_from(&self, from: &AddressSpace<'v, M>) {
        from.table.release_ownership();
        self.vm.shootdown.switch(self.vm.machine, Some(&from.tlb), Some((&self.tlb, self.root())));
    }

    /// This CPU keeps the space loaded, but runs no thread of it for now; it gives up the ownership of its
    /// tables. It stays in the set of CPUs that are flushed with the space.
    pub fn enter_lazy_tlb(&self) {
        self.table.release_ownership();
    }

    /// Whether no CPU translates through the space.
    pub fn runs_nowhere(&self) -> bool {
        self.tlb.cpus_racy().is_empty()
    }
}

impl<M: Machine> Drop for ActiveSpace<'_, '_, M> {
    fn drop(&mut self) {
        self.space.leave_cpu();
    }
}

impl<M: Machine> fmt::Debug for ActiveSpace<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "running {:?}", self.space)
    }
}
