//! Leaves that map an object's pages, in mappings that have others too.

use super::entries::Entries;
use super::{RangeToken, Zap};
use crate::machine::Machine;
use crate::table::{LockedTable, SlotRun, sweep};
use crate::tlb::Gather;
use crate::units::{Level, VpnRange};

impl<'v, M: Machine> Entries<'v, M> {
    /// Clears the leaves of the range that map an object's base pages; private copies of such pages stay.
    /// When it returns, no CPU uses them.
    pub fn drop_object_leaves(&self, token: RangeToken<'_>, range: VpnRange) {
        self.gather(token, range, |gather| {
            self.unhook_object_leaves(range, gather);
            Zap::of_contents(self).put_deferred(gather);
        });
    }

    /// As [`drop_object_leaves`](Self::drop_object_leaves), with the gather of the caller's edit, which puts
    /// frames that wait in their slots.
    pub fn unhook_object_leaves(&self, range: VpnRange, gather: &mut Gather<'_, 'v, M>) {
        sweep(&self.table, range, |run: SlotRun<'_, '_, M>| {
            if run.table.level() == Level::Pte {
                unhook_object_leaves(run, gather);
            }
        });
    }
}

/// Clears such leaves of a run, one after the other.
fn unhook_object_leaves<'v, M: Machine>(run: SlotRun<'_, '_, M>, gather: &mut Gather<'_, 'v, M>) {
    let SlotRun { table, slots, first } = run;
    let is_objects = |table: &LockedTable<'_, M>, slot| {
        // Of a private mapping of an object: what is not the space's own is the object's.
        table.leaf(slot).is_some_and(|(_, class)| !class.is_own()) || mutant!("hole.copies-dropped")
    };
    let mut rest = slots.clone();
    while let Some(slot) = table.first_used(rest.clone()) {
        rest.start = slot + 1;
        if is_objects(table, slot) {
            let one = SlotRun {
                table: &mut *table,
                slots: slot..slot + 1,
                first: first.add((slot - slots.start) as u64),
            };
            one.unhook_each(gather, Gather::if_shared, Gather::add);
        }
    }
}
