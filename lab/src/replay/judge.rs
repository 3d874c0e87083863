//! Why a fault, an answer or a place differs from the recorded one.

use super::checker::Checker;
use super::difference::DifferenceKind as Kind;
use super::player::Player;
use super::step::{Act, Bar, CallStep, STAND_IN, Tried, pages};
use crate::trace::{Access as FaultAccess, Call, Cause, Event, Fault, Kind as EventKind, Mode, Sys};
use interleaf::units::{Access, Order, VirtAddr};
use interleaf::vma::{ThpDisable, VmaAttributes, VmaFlags, order_to_try, orders_to_try};
use interleaf_linux_abi::Errno;

/// A fault by another thread so shortly before has the same cause: both touched the page while it was absent.
const SAME_MOMENT_NS: u64 = 20_000_000;

/// ENOMEM, as a call returns it.
const ENOMEM: i64 = Errno::ENOMEM.as_return_value();

/// What an access found here, and what it took.
#[derive(Clone, Copy, Debug)]
pub struct AccessOutcome {
    /// Whether the page had an entry before the access.
    pub is_present: bool,
    /// Whether that was of the zero page.
    pub is_zero: bool,
    /// Faults that the access took.
    pub raised: u64,
    /// Whether a huge page, or an mTHP folio, held it before the access.
    pub is_huge: bool,
}

impl Checker<'_> {
    /// Whether the page is one that Linux treats as a call asked for that is not built.
    pub(super) fn is_imposed(&self, addr: VirtAddr) -> bool {
        self.imposed_pages.contains(addr.0)
    }

    /// Whether what the processor met is what Linux's met.
    pub(super) fn judge_fault(
        &self,
        at: usize,
        fault: &Fault,
        outcome: AccessOutcome,
        player: &Player<'_, '_>,
    ) -> Option<Kind> {
        let addr = VirtAddr(fault.address);
        let cause = match (outcome.raised, outcome.is_present) {
            (0, _) => None,
            (_, true) => Some(Cause::Protection),
            (_, false) => Some(Cause::Absent),
        };
        if cause == Some(fault.cause) || fault.cause == Cause::Unknown {
            return None;
        }
        let event = &self.life.events[at];
        let is_absent = cause == Some(Cause::Absent);
        let last = self.last_fault.get(&addr.vpn());
        let other =
            last.is_some_and(|&(tid, time_ns)| tid != event.tid && event.time_ns - time_ns < SAME_MOMENT_NS);
        let at_exec = self.life.start.find(fault.address).is_some_and(|mapping| mapping.rss_kib > 0);
        let vma = vma_at(player, addr);
        let is_stand_in = vma.is_some_and(|vma| vma.flags.contains(STAND_IN));
        let cached = || vma.and_then(|vma| self.judge_cached(fault, outcome, &vma, player));
        let is_copy_of_zero = self.life.forked_from.is_some()
            && outcome.is_zero
            && last.is_none()
            && vma.is_some_and(|vma| vma.anon.is_none());
        Some(match cause {
            _ if is_stand_in => Kind::StandInPage,
            _ if is_absent && self.is_around(addr, player) => Kind::FileAround,
            _ if is_absent && at_exec => Kind::ExecPresent,
            _ if self.during_forks.contains(&addr.vpn()) => Kind::DuringFork,
            _ if self.is_left_by_refused_fork(at, fault, outcome, vma) => Kind::RefusedFork,
            _ if is_copy_of_zero => Kind::ForkedZero,
            _ if outcome.is_huge && self.huge.is_recorded() => Kind::HugeSupply,
            _ if outcome.is_huge || self.could_be_huge(vma, addr) => Kind::HugeSetting,
            _ if self.regions.is_possible(addr) => Kind::HugeSetting,
            _ if is_absent && self.regions.is_emptied(addr) => Kind::TableFreed,
            _ if is_absent && self.regions.may_be_collapsed(addr) => Kind::CollapseRefused,
            _ if self.is_changed_meanwhile(at, addr) => Kind::MeanwhileFault,
            _ if other => Kind::OtherThread,
            None if self.is_retry(event, fault) => Kind::KernelRetried,
            _ => cached().unwrap_or(if cause.is_none() { Kind::NoFault } else { Kind::Cause }),
        })
    }

    /// Whether the last things that the thread did before were faults in the kernel, one of the page among
    /// them: it was taken while faults were disabled and refused, and is taken again where the kernel may
    /// wait, which touches each page at its first byte.
    fn is_retry(&self, event: &Event, fault: &Fault) -> bool {
        let page = VirtAddr(fault.address).vpn();
        let faulted = self.kernel_faults.get(&event.tid);
        fault.mode == Mode::Kernel && faulted.is_some_and(|pages| pages.contains(&page))
    }

    /// Why a fault that Linux resolved is refused.
    pub(super) fn judge_refused(&self, at: usize, fault: &Fault) -> Kind {
        match fault.mode {
            Mode::Kernel => Kind::KernelRefused,
            Mode::User if self.is_changed_meanwhile(at, VirtAddr(fault.address)) => Kind::MeanwhileFault,
            Mode::User => Kind::Refused,
        }
    }

    /// A fault that was taken at what the library does not have, which refuses it.
    pub(super) fn barred(&mut self, at: usize, by: Bar) {
        let EventKind::Fault(fault) = self.life.events[at].kind else { return };
        let kind = match (self.signalled.contains_key(&at), by) {
            (true, Bar::Guard) => Kind::ImposedGuard,
            (true, Bar::Key) => Kind::ImposedKey,
            (false, _) => self.judge_refused(at, &fault),
        };
        self.verdict.performed += 1;
        self.differ(kind, at, || format!("{fault:x?}: barred by a {by:?}"));
    }

    /// Whether another thread was changing the mapping of the page while the fault was under way: which came
    /// first was not recorded. A fault waits for such a call, so it may have been taken before it and
    /// resolved after.
    fn is_changed_meanwhile(&self, at: usize, addr: VirtAddr) -> bool {
        let event = &self.life.events[at];
        let over_ns = self.unsettled.end_of_fault_ns(at, event);
        let end_ns = over_ns.min(event.time_ns.saturating_add(SAME_MOMENT_NS));
        self.unsettled.any_change_beside(event.time_ns..end_ns, event.tid, &pages(addr.0, 1))
    }

    /// Whether an access that Linux refused is allowed here, and another thread was changing the mapping
    /// then.
    pub(super) fn is_forbidden_meanwhile(
        &self,
        at: usize,
        addr: VirtAddr,
        tried: Tried,
        player: &Player<'_, '_>,
    ) -> bool {
        let flags = vma_at(player, addr).map_or(VmaFlags::empty(), |vma| vma.flags);
        let is_allowed = match tried {
            Tried::As(Access::Write) => flags.contains(VmaFlags::WRITE),
            Tried::As(Access::Execute) => flags.contains(VmaFlags::EXECUTE),
            Tried::As(Access::Read) => flags.intersects(VmaFlags::ACCESS),
            Tried::AsAllowed | Tried::AsForbidden => flags.contains(VmaFlags::ACCESS),
        };
        is_allowed && self.is_changed_meanwhile(at, addr)
    }

    /// Whether a fork that Linux refused may have taken the right to write from the page: no fault has given
    /// it back since, and the fork would have copied it. The library refuses before it takes any right, or
    /// has given the child up by then.
    fn is_left_by_refused_fork(
        &self,
        at: usize,
        fault: &Fault,
        outcome: AccessOutcome,
        vma: Option<VmaAttributes>,
    ) -> bool {
        const NOT_COPIED: VmaFlags = VmaFlags::DONT_FORK.union(VmaFlags::WIPE_ON_FORK);
        let is_copied =
            |vma: VmaAttributes| vma.is_private() && !vma.anon.is_none() && !vma.flags.intersects(NOT_COPIED);
        let page = VirtAddr(fault.address).vpn();
        let last_ns = self.last_fault.get(&page).map_or(0, |&(_, time_ns)| time_ns);
        let is_store = (fault.access, fault.cause) == (FaultAccess::Write, Cause::Protection);
        is_store
            && outcome.is_present
            && !outcome.is_zero
            && vma.is_some_and(is_copied)
            && self.forks.any_refused(last_ns, self.life.events[at].time_ns)
    }

    /// Whether the recorded machine may have had a huge page where this one, by another setting, has none.
    pub(super) fn could_be_huge(&self, vma: Option<VmaAttributes>, addr: VirtAddr) -> bool {
        let (thp_disable, page) = (ThpDisable::None, addr.vpn());
        let wanted = |vma: VmaAttributes| order_to_try(self.huge.recorded, thp_disable, &vma, page);
        let sizes = self.huge.recorded_sizes();
        let between = |vma| orders_to_try(sizes, self.huge.recorded, thp_disable, &vma, page);
        !self.huge.is_recorded()
            && vma.is_some_and(|vma| wanted(vma) == Order::HUGE || !between(vma).is_empty())
    }

    /// Why an answer differs.
    pub(super) fn judge_answer(
        &self,
        at: usize,
        call: &CallStep,
        ours: i64,
        player: &Player<'_, '_>,
    ) -> Kind {
        let EventKind::Call(recorded) = &self.life.events[at].kind else { return Kind::Answer };
        let address = recorded.args[0];
        let is_break_kept = call.sys == Sys::Brk && call.expected < ours;
        if self.is_limited(at) && ours >= 0 && (call.expected == ENOMEM || is_break_kept) {
            return Kind::Limit;
        }
        match call.act {
            _ if call.is_aligned_file() && ours > 0 => Kind::FilePlace,
            Act::MapFile { .. } | Act::StandIn(_) if call.expected > 0 && ours > 0 => {
                self.judge_place(at, recorded, call, ours)
            }
            Act::Mprotect { .. } | Act::Madvise { .. } if is_stand_in(player, VirtAddr(address)) => {
                Kind::StandInAnswer
            }
            _ if call.collapsed_pages() > 0 && is_any_shared(player, recorded) => Kind::SharedCollapse,
            _ if call.act.is_free_choice() && call.expected > 0 && ours > 0 => {
                self.judge_place(at, recorded, call, ours)
            }
            _ => Kind::Answer,
        }
    }

    /// Whether a limit of its address space or its data holds: from the start of the recording, or since the
    /// program set one.
    fn is_limited(&self, at: usize) -> bool {
        let from_start = self.limits.address_space_bytes.is_some() || self.limits.data_bytes.is_some();
        from_start || self.life.limited_from.is_some_and(|from| from <= at)
    }

    /// Two calls that were under way at the same time took effect in an order that the recording cannot know.
    /// The place we chose is one that another such call gave back or took.
    fn judge_place(&self, at: usize, recorded: &Call, call: &CallStep, ours: i64) -> Kind {
        let len_bytes = call.chosen_end().saturating_sub(call.expected as u64);
        let ours = pages(ours as u64, len_bytes);
        let beside =
            self.moves.any_beside(recorded.start_ns..recorded.end_ns, self.life.events[at].tid, &ours);
        if beside { Kind::Meanwhile } else { Kind::Place }
    }
}

/// Whether anonymous memory stands in for what is no file at the address.
pub fn is_stand_in(player: &Player<'_, '_>, addr: VirtAddr) -> bool {
    vma_at(player, addr).is_some_and(|vma| vma.flags.contains(STAND_IN))
}

/// Whether memory is shared at the address.
pub fn is_shared(player: &Player<'_, '_>, addr: VirtAddr) -> bool {
    vma_at(player, addr).is_some_and(|vma| vma.flags.contains(VmaFlags::SHARED))
}

/// Whether memory is shared in the range of a call.
fn is_any_shared(player: &Player<'_, '_>, call: &Call) -> bool {
    let range = pages(call.args[0], call.args[1]);
    player.mappings(range).any(|vma| vma.flags.contains(VmaFlags::SHARED))
}

fn vma_at(player: &Player<'_, '_>, addr: VirtAddr) -> Option<VmaAttributes> {
    player.space.inspect().vma_at(addr)
}
