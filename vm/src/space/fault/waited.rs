//! The tables whose locks CPUs have waited for: where a store's frame is zeroed before the lock.
//!
//! Where CPUs share a space, a table's lock is taken by a read-modify-write, which waits until the CPU's
//! earlier stores have drained: of a page of zeros too. So a fault zeroes its frame *under* the lock, and the
//! stores drain while the program goes on. But the store that releases the lock drains behind them, so
//! another CPU that wants the lock waits for the zeros. A fault that has to wait therefore zeroes its frame
//! meanwhile, and its CPU zeroes first in the region of that table from then on: before the mapping is even
//! looked up, so that the stores drain meanwhile.

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::sync::{Carve, PerCpu};
use crate::units::{Level, Vpn};

/// For each CPU the region of the table whose lock one of its faults has waited for last, of whatever space.
pub(in crate::space) struct WaitedTables<'m, C: Cpu> {
    /// The number of the region, plus one; 0: none. Relaxed: a hint that only the CPU itself uses.
    cpus: PerCpu<'m, AtomicU64<C>, C>,
}

impl<'m, C: Cpu> WaitedTables<'m, C> {
    /// None for any CPU. `None` where memory does not suffice.
    pub fn carve(from: &mut impl Carve<'m>, nr_cpus: u32) -> Option<Self> {
        Some(Self { cpus: PerCpu::carve(from, nr_cpus, |_| AtomicU64::new(0))? })
    }

    /// Notes that a fault of this CPU on this page is about to wait for the lock of its table.
    #[cold]
    pub fn note(&self, page: Vpn) {
        self.cpus.get_cpu().store(region_of(page), Relaxed);
    }

    /// Whether this CPU has noted last a page in the same table.
    #[inline]
    pub fn is_near(&self, page: Vpn) -> bool {
        self.cpus.get_cpu().load(Relaxed) == region_of(page)
    }
}

/// A number for the pages of one table, which is not 0.
const fn region_of(page: Vpn) -> u64 {
    (page.0 >> Level::Pmd.entry_shift()) + 1
}
