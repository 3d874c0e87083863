//! The one body of a page fault (protocol P1).
//!
//! ```text
//!   find the mapping ─► check rights ─► reach the table ─► see the entry ─► prepare a frame
//!        RCU                              link absent ones                        │
//!                                                                                 ▼
//!   done ◄─ install ◄─ mapping still valid? ◄─ entry as seen? ◄─ attached? ◄─ lock the table
//! ```
//!
//! The steps take a [`Proof`] of why the mapping may be trusted; there is no second copy of them. Everything
//! before the lock reads under RCU and can be thrown away. Under the lock of the table page three questions
//! decide: is the table still attached (P5), is the entry what was seen, does the mapping still hold (P2).
//! From then on the table's lock alone keeps the table in the tree, so the read section may end before a
//! flush is waited for.
//!
//! Linking a table is an installation like any other (P4): the parent's lock, attached, still valid.
//!
//! In the read section nothing sleeps or waits for memory: what cannot be had at once ends the attempt with
//! [`Stop::NoMemory`], and the frame prepared so far stays in [`Carried`] for the next one.

use super::AddressSpace;
use super::carried::Carried;
use super::counters::Counter;
use super::fault::{Fallback, Fault};
use super::landing::Landing;
use super::last_fault::LastFault;
use super::plan::{Given, Plan, plan};
use super::proof::Proof;
use crate::machine::{Cpu, Entry, Machine};
use crate::sync::{CpuRef, ReadGuard};
use crate::table::{LockedTable, Spot, walk_cached, walk_on};
use crate::units::{Level, Vpn};
use crate::vma::Vma;

type MyLastFault<'a, M> = CpuRef<'a, LastFault<<M as Machine>::Cpu>, <M as Machine>::Cpu>;

/// Why an attempt ended without resolving the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Nothing is mapped there.
    NotMapped,
    /// The mapping does not allow the access.
    NotAllowed,
    /// The mapping was replaced meanwhile, or is busy.
    Changed,
    /// A table on the way was cut out.
    TableCut,
    /// The entry holds a marker.
    EntryBusy,
    /// No frame without waiting.
    NoMemory,
}

impl Stop {
    /// What speculation calls it.
    pub fn as_fallback(self) -> Fallback {
        match self {
            Stop::NotMapped => Fallback::VmaMissing,
            Stop::NotAllowed => Fallback::VmaAccess,
            Stop::Changed => Fallback::VmaChanged,
            Stop::TableCut => Fallback::PmdChanged,
            Stop::EntryBusy => Fallback::EntryBusy,
            Stop::NoMemory => Fallback::NoMemory,
        }
    }
}

/// How an attempt ended that nothing stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The entry allows the access.
    Resolved,
    /// The entry changed meanwhile. It may allow the access now, or less than that: who faulted tries the
    /// access again, who populates tries the attempt again.
    Overtaken,
}

/// Tries once to resolve `fault`. `Ok` says that the access is to be tried again.
#[inline(always)]
pub fn attempt<'v, M: Machine, P: Proof<M>>(
    space: &AddressSpace<'v, M>,
    fault: Fault,
    proof: &P,
    carried: &mut Carried<'v, M>,
) -> Result<Ended, Stop> {
    let vm = space.vm;
    let reading = vm.rcu.read();
    let page = fault.addr.vpn();
    let last_fault = vm.last_fault.this_cpu(&reading);
    let vma = space.find_cached(&reading, last_fault, page).ok_or(Stop::NotMapped)?;
    let rights = vma.rights();
    if !rights.contains(fault.access.needs()) {
        return Err(Stop::NotAllowed);
    }
    let aim = Aim { space, vma, page, proof, reading: &reading, last_fault };
    let spot = aim.reach(carried)?;
    let plan = plan(
        spot.entry(),
        Given {
            private_anonymous: vma.is_private_anonymous(),
            rights,
            access: fault.access,
            zero: vm.memory.zero_frame(),
        },
    );
    match plan {
        Plan::Nothing => return Ok(Ended::Resolved),
        Plan::Wait => return Err(Stop::EntryBusy),
        Plan::Own | Plan::ReplaceZero => {
            carried.want_from(vma, page);
            carried.prepare_frame()?;
        }
        Plan::ShowBacking => carried.prepare_backing(vma, page, &reading)?,
        Plan::ShowZero | Plan::Allow(_) => {}
    }
    let Some(table) = aim.lock(&spot, plan, carried)? else { return Ok(Ended::Overtaken) };
    if plan == Plan::ShowZero {
        vm.counters.count_here(Counter::ZeroPageMapped, &reading);
    }
    drop(reading);
    Landing { space, table, slot: spot.slot, page, access: fault.access, rights }.carry_out(plan, carried);
    Ok(Ended::Resolved)
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// The mapping that holds the page: the one that this CPU found last, if it still says so.
    #[inline(always)]
    fn find_cached<'g>(
        &self,
        reading: &'g ReadGuard<'_, M::Cpu>,
        last_fault: MyLastFault<'_, M>,
        page: Vpn,
    ) -> Option<&'g Vma<M::Cpu>> {
        let found = self.vmas.find_cached(reading, last_fault, LastFault::mapping, page);
        unless_replaced(found, || self.vmas.find(reading, page))
    }
}

/// What was found, and if that has been replaced meanwhile, what is found now. Where nothing was found,
/// nothing is remembered that could be out of date.
#[inline(always)]
fn unless_replaced<'g, C: Cpu>(
    found: Option<&'g Vma<C>>,
    now: impl FnOnce() -> Option<&'g Vma<C>>,
) -> Option<&'g Vma<C>> {
    match found {
        Some(vma) if !vma.is_live() => now(),
        found => found,
    }
}

/// A fault on its way to its entry.
struct Aim<'a, 's, 'v, M: Machine, P> {
    space: &'s AddressSpace<'v, M>,
    vma: &'a Vma<M::Cpu>,
    page: Vpn,
    proof: &'a P,
    reading: &'a ReadGuard<'a, M::Cpu>,
    last_fault: MyLastFault<'a, M>,
}

impl<M: Machine, P> Clone for Aim<'_, '_, '_, M, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine, P> Copy for Aim<'_, '_, '_, M, P> {}

impl<'s, 'v, M: Machine, P: Proof<M>> Aim<'_, 's, 'v, M, P> {
    /// Walks to the entry of the page, linking the tables that are absent.
    #[inline(always)]
    fn reach(&self, carried: &mut Carried<'v, M>) -> Result<Spot<'s, M>, Stop> {
        let mut spot =
            walk_cached(&self.space.table, self.page, self.reading, self.last_fault, LastFault::table);
        while spot.table.level() != Level::Pte {
            if spot.entry() != Entry::Absent {
                return Err(Stop::EntryBusy);
            }
            self.link(&spot, carried)?;
            spot = walk_on(spot.table, self.page, Level::Pte, self.reading);
        }
        Ok(spot)
    }

    /// Links an empty table where the walk found none (P4: an installation, under the parent's lock). By
    /// value, so that an aim lies in memory only here.
    #[cold]
    #[inline(never)]
    fn link(self, spot: &Spot<'s, M>, carried: &mut Carried<'v, M>) -> Result<(), Stop> {
        carried.prepare_table()?;
        let mut parent = spot.table.lock().ok_or(Stop::TableCut)?;
        if parent.read(spot.slot) == spot.word {
            self.confirm()?;
            if let Some(table) = carried.take_table() {
                parent.install(spot.slot, Entry::Table(table));
                self.space.vm.count(Counter::TableAlloc);
            }
        }
        Ok(())
    }

    /// Locks the table and asks the three questions. `None` where the entry is no longer what was seen:
    /// somebody else resolved the fault, or the access will fault again.
    #[inline(always)]
    fn lock(
        &self,
        spot: &Spot<'s, M>,
        plan: Plan,
        carried: &Carried<'v, M>,
    ) -> Result<Option<LockedTable<'s, M>>, Stop> {
        let table = spot.table.lock().ok_or(Stop::TableCut)?;
        if !mutant!("fault.entry-not-rechecked") && table.read(spot.slot) != spot.word {
            return Ok(None);
        }
        let vma = self.confirm()?;
        match plan {
            Plan::Own | Plan::ReplaceZero if vma.anon().is_none() => {
                self.space.assign_anon(vma, self.reading).ok_or(Stop::Changed)?;
            }
            // P12: the frame may have left the object since it was looked up.
            Plan::ShowBacking if !carried.backing_holds(vma, self.page, self.reading) => {
                return Err(Stop::Changed);
            }
            _ => {}
        }
        Ok(Some(table))
    }

    #[inline(always)]
    fn confirm(&self) -> Result<&Vma<M::Cpu>, Stop> {
        self.proof.confirm(self.space, self.vma, self.page, self.reading).ok_or(Stop::Changed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::machine::testing::TestCpu;
    use crate::units::VpnRange;
    use crate::vma::{VmaAttributes, VmaFlags, VmaState};
    use core::ptr;

    #[test]
    fn only_a_mapping_that_was_replaced_is_looked_for_again() {
        let attributes = VmaAttributes::anonymous(VpnRange::new(Vpn(4), Vpn(6)), VmaFlags::READ);
        let record = |state| Vma::<TestCpu>::new(attributes, state);
        let (live, stale, busy) = (record(VmaState::Live), record(VmaState::Stale), record(VmaState::Busy));
        let not_again = || panic!("looked for again");
        assert!(unless_replaced::<TestCpu>(None, not_again).is_none());
        assert!(unless_replaced(Some(&live), not_again).is_some_and(|vma| ptr::eq(vma, &live)));
        for old in [&stale, &busy] {
            assert!(unless_replaced(Some(old), || Some(&live)).is_some_and(|vma| ptr::eq(vma, &live)));
            assert!(unless_replaced(Some(old), || None).is_none());
        }
    }
}
