//! A word of memory that the running program could load, read without a lock and without a reference.
//!
//! A profiler that reads a call chain runs in an NMI, perhaps in the middle of a fault. It can take no lock;
//! and no reference to the frame either, as it might be left with the last one, and freeing takes locks. So
//! what keeps the frame in place between the read of the entry and the read of the word?
//!
//! The same that does so for the hardware. A CPU that translates through a root may have cached each entry
//! that it could reach. So what an entry mapped is freed only after a flush (P6), which waits for every CPU
//! that has the root loaded (P7); and this CPU answers in a handler of interrupts, of which none runs as long
//! as interrupts are off:
//!
//! ```text
//!   this CPU   interrupts off ─ is the root loaded? ─ entry ──────── word ─ interrupts on ─ answer
//!   a writer                            entry cleared ─ flush ─ waits ·····························► free
//! ```
//!
//! The entry was read here before the answer, and after all that was answered before: an answer is given for
//! edits that this CPU sees, so an entry that it still reads belongs to a flush that it has not answered. In
//! an NMI that comes in the middle of an answer likewise: the request was taken before, so its edit is seen.
//!
//! A CPU that does not have the root loaded is not waited for: it is refused. That is the reason why this
//! asks the machine, and not the space's set of CPUs, which names a CPU some time longer.

use super::{PageTable, is_canonical, walk};
use crate::machine::{Entry, Machine};
use crate::sync::{HandlerSection, with_interrupts_off};
use crate::units::{Level, PhysAddr, Rights, VirtAddr};
use core::fmt;

/// Why a word is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotRead {
    /// This CPU does not translate through the space.
    NotLoaded,
    /// The address is not a multiple of 8.
    Misaligned,
    /// Nothing is mapped there, nothing was touched, or an operation is under way.
    NotPresent,
    /// The entry does not allow loads.
    NotAllowed,
    /// The frame is not the library's: memory of a device may not bear to be read.
    NotOwned,
}

impl<M: Machine> PageTable<'_, M> {
    /// The 8 bytes at `addr`, as a program that this CPU runs through these tables would load them. See the
    /// module.
    ///
    /// # Errors
    /// [`NotRead`].
    pub(crate) fn read_word_here(
        &self,
        addr: VirtAddr,
        section: &HandlerSection<'_, M::Cpu>,
    ) -> Result<u64, NotRead> {
        if !addr.0.is_multiple_of(8) {
            return Err(NotRead::Misaligned);
        }
        if !is_canonical::<M::Format>(addr.vpn()) {
            return Err(NotRead::NotPresent);
        }
        let read = || {
            let machine = self.memory.machine();
            if machine.loaded_root() != Some(self.root()) && !mutant!("read-here.foreign-space-read") {
                return Err(NotRead::NotLoaded);
            }
            let found = walk(self, addr.vpn(), Level::Pte, section.reading());
            let Entry::Leaf(leaf) = found.entry() else { return Err(NotRead::NotPresent) };
            if !leaf.rights.contains(Rights::READ) {
                return Err(NotRead::NotAllowed);
            }
            if leaf.pfn == self.memory.zero_frame() || self.is_huge_zero(leaf, found.table.level()) {
                return Ok(0);
            }
            if !leaf.owned() {
                return Err(NotRead::NotOwned);
            }
            let pages = found.table.level().entry_pages();
            let inside =
                if mutant!("read-here.first-frame-of-leaf") { 0 } else { addr.vpn().0 & (pages - 1) };
            let at = PhysAddr(leaf.pfn.add(inside).addr().0 | addr.offset() as u64);
            let mut word = [0; 8];
            // SAFETY: 8 aligned bytes lie in one frame. The entry owns a mapping of it, so it is memory of
            // the library's that programs use, in which no code has a Rust object; and so it stays until they
            // are copied: the frame is freed after a flush of every CPU that translates through the root (as
            // `GatherBatch::free_after`), which this one does, by rule 9 of `Machine`, and it answers no
            // request before interrupts are on again, by rules 2 and 7 of `Cpu`.
            unsafe { machine.copy_out(at, &mut word) };
            Ok(u64::from_ne_bytes(word))
        };
        if mutant!("read-here.interrupts-left-on") { read() } else { with_interrupts_off::<M::Cpu, _>(read) }
    }
}

impl fmt::Display for NotRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotRead::NotLoaded => "this CPU does not translate through the space",
            NotRead::Misaligned => "not a multiple of 8",
            NotRead::NotPresent => "nothing is present there",
            NotRead::NotAllowed => "the entry does not allow loads",
            NotRead::NotOwned => "the frame is not the library's",
        })
    }
}

impl core::error::Error for NotRead {}
