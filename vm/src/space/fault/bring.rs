//! What an attempt has lacked is brought: with no lock held and outside of any read section, so it may last,
//! and sleep.

use super::known_zero::kind_of;
use super::prepared::{Fill, Owner, Prepared, Slow, Want};
use crate::frame::{FrameRef, NoHugeZero, NotTaken, PageFill, Priority, Taken};
use crate::machine::{Cpu, Machine};
use crate::object::{Object, PageAnswer};
use crate::space::edit::entries::Entries;
use crate::space::{Counter, MadeDirty, Vm};
use crate::sync::Progress;
use crate::table::walk;
use crate::units::{Level, Order, Vpn};
use crate::vma::OrderSet;
use core::num::NonZeroU64;

impl<'v, M: Machine> Entries<'v, M> {
    /// Brings what the last attempt wanted, if it wanted anything. Whether the next one may get on.
    #[cold]
    #[inline(never)]
    pub(in crate::space) fn bring(&self, prepared: &mut Prepared<'v, M>) -> Progress {
        match prepared.slow {
            Slow::Wanted(Want::Page(object, page)) => self.bring_page(object, page, prepared),
            Slow::Wanted(Want::Store(object, page)) => self.bring_store(object, page, prepared),
            Slow::Wanted(want) => {
                self.bring_memory(want, prepared);
                Progress::Own
            }
            _ => Progress::Own,
        }
    }

    /// Has the pager fill the page of an object; waits once, where that is not ready.
    fn bring_page(&self, object: NonZeroU64, page: u64, prepared: &mut Prepared<'v, M>) -> Progress {
        let (vm, want) = (self.vm, Want::Page(object, page));
        // Else the next attempt finds another mapping, or allocates a frame.
        let key = vm.objects.get(object, &vm.rcu.read()).and_then(Object::pager_key);
        let (Some(key), Some(frame)) = (key, prepared.frame.take()) else { return Progress::None };
        let mut filled = PageFill::new(frame);
        let (answer, wait) = vm.objects.ask_pager(key, page, &mut filled);
        if answer == PageAnswer::Ready {
            vm.count(Counter::PgMajFault);
            prepared.found(want, Fill::Page(filled));
            return Progress::Own;
        }
        prepared.frame = filled.into_untouched();
        if answer == PageAnswer::NotReady {
            // Of any page of the word: the embedder has made a step.
            return if wait.wait() { Progress::Observed } else { Progress::None };
        }
        prepared.note_lack(want);
        Progress::Own
    }

    /// Asks the pager whether a page may be stored to, and makes it dirty; waits once, where that is not
    /// ready.
    fn bring_store(&self, object: NonZeroU64, page: u64, prepared: &mut Prepared<'v, M>) -> Progress {
        let (vm, want) = (self.vm, Want::Store(object, page));
        match vm.make_dirty(object, page) {
            // Where the object has no such page any more, the next attempt fills it, and asks again.
            MadeDirty::Dirty | MadeDirty::Absent => prepared.found(want, Fill::Elsewhere),
            MadeDirty::Refused => prepared.note_lack(want),
            MadeDirty::NotYet(wait) => {
                return if wait.wait() { Progress::Observed } else { Progress::None };
            }
        }
        Progress::Own
    }

    /// Brings what is no page of a pager's.
    fn bring_memory(&self, want: Want, prepared: &mut Prepared<'v, M>) {
        let vm = self.vm;
        let fill = match want {
            Want::Folio(owner, orders) => self.bring_folio(owner, orders, prepared),
            // Allocated by `wait_for_memory`; brought by `bring_page` and `bring_store`.
            Want::Blank | Want::Page(..) | Want::Store(..) => return,
            Want::HugeZero => {
                let kind = kind_of::<M::Format>(vm.zero_page).ok_or(NoHugeZero);
                let taken = kind.and_then(|kind| self.table.take_huge_zero(kind, Some(Priority::Normal)));
                if matches!(taken, Ok((_, Taken::Allocated))) {
                    vm.count(Counter::ThpZeroPageAlloc);
                }
                taken.ok().map(|_| Fill::Elsewhere)
            }
            Want::Hugetlb(size, right) => {
                let try_take = || vm.memory.hugetlb().take(size, prepared.placement, right);
                let taken = match try_take() {
                    // Walkers without a lock have their references in read sections.
                    Err(NotTaken::Astray) => {
                        vm.synchronize();
                        try_take()
                    }
                    taken => taken,
                };
                match taken {
                    Ok(mut folio) => {
                        folio.zero(vm.workers);
                        Some(Fill::Hugetlb(folio))
                    }
                    // The next attempt finds another entry, or wants a page again.
                    Err(NotTaken::Kept | NotTaken::Away) => return M::Cpu::relax(),
                    Err(NotTaken::Empty | NotTaken::Astray) => None,
                }
            }
            Want::HugetlbCopy(size, page) => {
                match vm.memory.hugetlb().take_for_copy(size, prepared.placement) {
                    Ok(unfilled) => match self.shared_hugetlb_page(page) {
                        Some(source) => Some(Fill::HugetlbCopy(unfilled.fill(source, vm.workers))),
                        // The next attempt finds another entry.
                        None => return drop(unfilled),
                    },
                    Err(NotTaken::Kept | NotTaken::Away) => return M::Cpu::relax(),
                    Err(NotTaken::Empty | NotTaken::Astray) => None,
                }
            }
        };
        match fill {
            Some(Fill::Elsewhere) => prepared.slow = Slow::Nothing,
            Some(fill) => prepared.found(want, fill),
            None => prepared.note_lack(want),
        }
    }

    /// A zeroed folio of the largest of the orders that is free. Each that is not is counted. A folio takes
    /// as long to zero as hundreds of faults, so idle helpers zero parts of it.
    fn bring_folio(
        &self,
        owner: Owner,
        mut orders: OrderSet,
        prepared: &Prepared<'v, M>,
    ) -> Option<Fill<'v, M>> {
        while let Some(order) = orders.largest() {
            let (memory, placement) = (&self.vm.memory, prepared.placement);
            let helpers = self.vm.workers.filter(|_| order >= Order::HUGE);
            if let Some(folio) = memory.alloc_zeroed_folio_by(placement, order, helpers) {
                return Some(Fill::Own(folio));
            }
            self.vm.count_lack_of_folio(owner, order);
            orders = orders.without(order);
        }
        None
    }

    /// A reference to the private hugetlb folio that `page` lies in, where it is shared with other spaces.
    pub(in crate::space) fn shared_hugetlb_page(&self, page: Vpn) -> Option<FrameRef<'v, M>> {
        let reading = self.vm.rcu.read();
        let found = walk(&self.table, page, Level::Pte, &reading);
        let table = found.table.lock()?;
        if self.fork.is_behind(page) && !mutant!("pool.copied-before-flush") {
            return None;
        }
        let leaf = table.shared_hugetlb_leaf(found.slot)?;
        self.vm.memory.try_get(leaf.pfn)
    }
}

impl<M: Machine> Vm<'_, M> {
    /// Counts that there was no block of this order.
    #[cold]
    pub(super) fn count_lack_of_folio(&self, owner: Owner, order: Order) {
        let counter = match owner {
            Owner::Object => Some(Counter::ThpFileFallback),
            Owner::Space if order == Order::HUGE => Some(Counter::ThpFaultFallback),
            Owner::Space => Counter::anon_fault_fallback(order),
        };
        counter.into_iter().for_each(|counter| self.count(counter));
    }
}
