//! Which pages of a space were used: a scan that clears accessed bits.

use super::Walker;
use crate::machine::{FlushRange, Leaf, Machine};
use crate::space::Counter;
use crate::sync::ReadGuard;
use crate::table::{AccessedScan, scan_accessed, scan_in_parts};
use crate::units::VpnRange;

impl<M: Machine> Walker<'_, '_, M> {
    /// Clears the accessed bit of each leaf of the range that has it set, and calls `visit` with the pages of
    /// such a leaf, and the leaf as it was. A huge leaf that the range cuts is taken whole. (Linux:
    /// `test_and_clear_young` in a walk of `lru_gen`, or idle page tracking.)
    ///
    /// Called in a read section of the system, with any lock or none. Takes no lock, waits for no CPU and
    /// allocates nothing; of what CPUs share it writes the entries whose bits it clears. Nothing waits for it
    /// but what is freed while the section lasts: a caller with much to scan ends the section in between.
    ///
    /// `visit` is called in the caller's section, with the caller's locks: what may not be called there (all
    /// that sleeps or waits for readers, as an edit of the space), `visit` does not call.
    /// [`scan_accessed_and_flush`](Self::scan_accessed_and_flush) calls its visitor with nothing held.
    ///
    /// *What may be stale.* Each entry was as told at one moment of this call, another one for each. A CPU
    /// that has a translation cached sets no bit again before it has dropped it: a page may look idle though
    /// it is used. [`scan_accessed_and_flush`](Self::scan_accessed_and_flush) leaves no such page. A page
    /// that is unmapped or changed meanwhile may count as used once more.
    ///
    /// # Panics
    /// If the read section is one of another system.
    pub fn scan_accessed(
        self,
        range: VpnRange,
        reading: &ReadGuard<'_, M::Cpu>,
        visit: impl FnMut(VpnRange, Leaf),
    ) -> AccessedScan {
        scan_accessed(&self.entries.table, self.user_part(range), reading, visit)
    }

    /// As [`scan_accessed`](Self::scan_accessed), and makes every CPU that runs the space forget the pages
    /// whose bits were cleared: an access after this has returned sets the bit again.
    ///
    /// Called with no spin lock held and outside any read section: waits for the CPUs that run the space, as
    /// any flush. One flush for all of the range, after the scan, in which a read section lasts for a few
    /// entries. `visit` is called between these, with nothing held: it may call anything, this space too. Of
    /// a page that it unmaps, it may be told once more.
    pub fn scan_accessed_and_flush(
        self,
        range: VpnRange,
        mut visit: impl FnMut(VpnRange, Leaf),
    ) -> AccessedScan {
        let mut cleared: Option<VpnRange> = None;
        let scan =
            scan_in_parts(&self.entries.table, self.user_part(range), &self.entries.vm.rcu, |pages, leaf| {
                let start = cleared.map_or(pages.start, |known| known.start);
                cleared = Some(VpnRange { start, end: pages.end });
                visit(pages, leaf);
            });
        if let Some(pages) = cleared
            && !mutant!("accessed.flush-skipped")
        {
            let vm = self.entries.vm;
            vm.count(Counter::TlbFlush);
            vm.shootdown.flush(vm.machine, &self.entries.tlb, FlushRange::of_bits(pages));
        }
        scan
    }
}
