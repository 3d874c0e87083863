//! Entries of mappings of the hugetlb pool, and how they are emptied.

use super::RangeToken;
use super::entries::Entries;
use crate::machine::Machine;
use crate::space::Error;
use crate::table::{LockedTable, SlotRun, sweep_table, sweep_tables};
use crate::tlb::Gather;
use crate::units::{Vpn, VpnRange};
use crate::vma::HugetlbBacking;

impl<M: Machine> Entries<'_, M> {
    /// Drops the contents of a part of a mapping of the hugetlb pool, which stays. A huge page is set aside
    /// for each page that is dropped, where one was when it was mapped. Of shared memory only the entries are
    /// dropped. (Linux: `MADV_DONTNEED` of hugetlb.)
    ///
    /// As Linux does, the end is rounded down to a page.
    ///
    /// # Errors
    /// [`Error::Invalid`] where a page is cut at the start.
    pub fn drop_hugetlb_pages(
        &self,
        token: RangeToken<'_>,
        part: VpnRange,
        pool: HugetlbBacking,
    ) -> Result<(), Error> {
        let unit = pool.size.pages();
        if !part.start.0.is_multiple_of(unit) {
            return Err(Error::Invalid);
        }
        let range = VpnRange::new(part.start, Vpn(part.end.0 & !(unit - 1)));
        if range.is_empty() {
            return Ok(());
        }
        self.gather(token, range, |gather| {
            let each = |table: &mut LockedTable<'_, M>, rest| {
                let end = sweep_table(table, rest, &mut |mut run: SlotRun<'_, '_, M>| {
                    drop_leaves(&mut run, pool, gather);
                });
                // As for other huge pages: the table is not unlocked before its CPUs have forgotten them.
                gather.flush_now();
                end
            };
            sweep_tables(&self.table, range, each, || true);
        });
        Ok(())
    }
}

fn drop_leaves<M: Machine>(
    run: &mut SlotRun<'_, '_, M>,
    pool: HugetlbBacking,
    gather: &mut Gather<'_, '_, M>,
) {
    if run.table.level() != pool.size.level() {
        return;
    }
    run.each_used(|table, slot, page| {
        if let Some(unhooked) = table.drop_hugetlb_leaf(slot, page, pool.reserves) {
            gather.add(unhooked);
        }
    });
}
