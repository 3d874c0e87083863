//! What tests look at: the TLBs, and the tables that a CPU translates through.

use super::current;
use super::entered::Running;
use super::flavour::Flavour;
use super::machine::SoftMachine;
use super::tlb::{EVERYTHING, Translation};
use super::walker::{leaf_at, toggle_unknown};
use interleaf::machine::{Format, Leaf};
use interleaf::units::{CpuId, Level, Pfn, Vpn};

impl<C: Flavour, F: Format> SoftMachine<C, F> {
    /// Passes the contents of the TLB of `cpu` to `page` and `table`: pages, and tables with the level of the
    /// entry that pointed to them.
    ///
    /// # Errors
    /// [`Running`] where another thread runs on the CPU.
    pub fn inspect(
        &self,
        cpu: CpuId,
        page: impl FnMut(Translation),
        table: impl FnMut(Level, Pfn),
    ) -> Result<(), Running> {
        let (line, me) = (self.bus.line(cpu), current::thread_number());
        // Owning the run queue keeps others from entering meanwhile.
        let queued = line.queue.try_acquire();
        let entered = queued && line.try_occupy(me);
        if !entered && !line.is_occupied_by(me) {
            if queued {
                line.queue.release();
            }
            return Err(Running(cpu));
        }
        let mmu = &self.cpus[cpu.index()];
        assert!(!mmu.borrowed.get(), "a TLB is inspected from inside of it");
        // A copy, so that the callbacks may call anything. SAFETY: this thread occupies the CPU, as asked
        // above, thus no other touches its TLB; nor is this thread inside of `with_mmu`, as just checked.
        let tlb = unsafe { (*mmu.tlb.get()).clone() };
        if entered {
            line.vacate();
        }
        if queued {
            line.queue.release();
        }
        tlb.for_each_page(EVERYTHING, page);
        tlb.for_each_table(table);
        Ok(())
    }

    /// The root that this CPU translates through.
    pub fn root(&self) -> Option<Pfn> {
        self.mmu().root.get()
    }

    /// The entry of a page in the tables that this CPU translates through, if it is a leaf. The TLB is not
    /// asked, and nothing is marked accessed.
    pub fn leaf_at(&self, page: Vpn) -> Option<Leaf> {
        leaf_at(self, (F::ROOT, self.root()?), page)
    }

    /// Makes the absent entry of a page one of a kind that the library does not know, as another system that
    /// edits the same tables might, or makes it absent again. `false` where the entry is neither. For tests
    /// of the library's answer.
    pub fn toggle_unknown(&self, page: Vpn) -> bool {
        self.root().is_some_and(|root| toggle_unknown(self, root, page))
    }
}
