//! Helpers that callers wait for. Helpers have the lowest priority, and run where no other thread is ready; a
//! caller that waits for one must not wait for all the others. So a helper is expedited
//!
//! | from | until | because it is waited for by |
//! |---|---|---|
//! | before it joins an item | it has left it | the item's caller, and callers that want locks it holds |
//! | it is reserved | it is released | submitters of the ordered queue: serial parts belong to its CPU |
//! | it is dismissed | it has left | the caller of `dismiss` or `close` |

use crate::machine::Cpu;
use crate::units::CpuId;
use core::marker::PhantomData;

/// The helper of a CPU is expedited, until this is dropped.
#[must_use = "the helper is expedited until this is dropped"]
pub(super) struct Expedited<C: Cpu>(CpuId, PhantomData<C>);

impl<C: Cpu> Expedited<C> {
    pub(super) fn new(cpu: CpuId) -> Self {
        C::expedite_helper(cpu);
        Self(cpu, PhantomData)
    }
}

impl<C: Cpu> Drop for Expedited<C> {
    fn drop(&mut self) {
        C::end_expedite(self.0);
    }
}
