//! Read sections of code that has interrupted other code of its CPU, perhaps in the middle of this module.
//!
//! A handler of an interrupt, of an NMI or of a machine check begins and ends its read section between two
//! instructions of the code that it interrupted, and runs to its end before that goes on (rule 2 of
//! [`Cpu`]). So all that has to hold is that each word which a section writes is, at the end of the handler,
//! what the interrupted code expects, wherever that was:
//!
//! | interrupted code is | the handler's section |
//! |---|---|
//! | in `read`, before its store | is an outer one: the word is 0 again afterwards |
//! | in a section | is an inner one: the word is as it was; the outer one loses its last hits |
//! | at the end, before its store | is an inner one still; the store of a lower depth follows |
//! | in `note_quiet_at` | is over before the CPU says that it was quiet |
//! | in `advance` or `defer` | touches neither their locks nor their cells |
//!
//! In the first case the interrupted code may store an epoch that is older by now: it counts as a reader that
//! began earlier.
//!
//! Beside the reader's word a section changes the CPU's count of sections with preemption off, and in debug
//! builds the thread's count of sections, in the same way. It takes no lock, waits for nothing and allocates
//! nothing. So a section may begin anywhere, in an NMI too. That interrupts are off would be no proof in its
//! place: no advance asks whether a CPU has them off. An advance reads the CPU's word, finds no section in
//! it, and goes on.
//!
//! What would be wrong in a handler is what one can do with a [`ReadGuard`]: lock a table that the
//! interrupted code has locked. So a handler's section does not give its guard: it is accepted by the walkers
//! that lock nothing, and by nothing else.
//!
//! ```compile_fail,E0308
//! use interleaf::{machine::*, space::*, table::*, units::*};
//! fn lock_in_handler<M: Machine>(space: &AddressSpace<'_, M>, page: Vpn) {
//!     let section = space.vm().read_in_handler();
//!     walk(space.inspect().page_table(), page, Level::Pte, &section).table.lock();
//! }
//! ```

use super::{Rcu, ReadGuard};
use crate::machine::Cpu;
use core::fmt;

/// A read section that may begin anywhere: in a thread, in a handler of interrupts, of NMIs, or of machine
/// checks. It is accepted by walkers that take no lock, wait for nothing, allocate nothing and write nothing
/// that CPUs share.
///
/// The platform enters such a handler with preemption off and interrupts off, and its methods of
/// [`Cpu`], [`Machine::window`](crate::machine::Machine::window), `table`, `copy_out` and `loaded_root` may
/// be called there.
#[must_use = "the read section ends once this is dropped"]
pub struct HandlerSection<'a, C: Cpu> {
    reading: ReadGuard<'a, C>,
}

impl<C: Cpu> Rcu<'_, C> {
    /// Begins a read section in code that may have interrupted anything on its CPU.
    #[inline]
    #[track_caller]
    pub fn read_in_handler(&self) -> HandlerSection<'_, C> {
        HandlerSection { reading: self.read() }
    }
}

impl<'a, C: Cpu> HandlerSection<'a, C> {
    /// The section, for walkers that lock nothing.
    #[inline(always)]
    pub(crate) fn reading(&self) -> &ReadGuard<'a, C> {
        &self.reading
    }
}

impl<C: Cpu> fmt::Debug for HandlerSection<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("reading in a handler")
    }
}
