//! Why a fault, an answer or a place differs from the recorded one.

use super::checker::Checker;
use super::difference::DifferenceKind as Kind;
use super::player::Player;
use super::step::{Act, CallStep, STAND_IN, pages};
use crate::trace::{Call, Cause, Event, Fault, Kind as EventKind, Mode, Sys};
use interleaf::units::{Order, PageSize, VirtAddr, Vpn};
use interleaf::vma::{HugeRefusal, VmaAttributes, VmaFlags, order_to_try};
use std::collections::{HashMap, HashSet};

/// A fault by another thread so shortly before has the same cause: both touched the page while it was absent.
const SAME_MOMENT_NS: u64 = 20_000_000;

/// What the processor met here.
#[derive(Clone, Copy, Debug)]
pub struct Met {
    /// Whether the page had an entry before the access.
    pub is_present: bool,
    /// Whether that was of the zero page.
    pub is_zero: bool,
    /// Faults that the access took.
    pub raised: u64,
    /// Whether a huge page held it before the access.
    pub is_huge: bool,
}

impl Checker<'_> {
    /// Whether the page is one that Linux treats as a call asked for that is not built.
    pub(super) fn is_imposed(&self, addr: VirtAddr) -> bool {
        self.imposed_pages.iter().any(|range| range.contains(&addr.0))
    }

    /// Whether what the processor met is what Linux's met.
    pub(super) fn judge_fault(
        &self,
        at: usize,
        fault: &Fault,
        met: Met,
        player: &Player<'_, '_>,
    ) -> Option<Kind> {
        let addr = VirtAddr(fault.address);
        let cause = match (met.raised, met.is_present) {
            (0, _) => None,
            (_, true) => Some(Cause::Protection),
            (_, false) => Some(Cause::Absent),
        };
        if cause == Some(fault.cause) || fault.cause == Cause::Unknown {
            return None;
        }
        let event = &self.life.events[at];
        let last = self.last_fault.get(&addr.vpn());
        let other =
            last.is_some_and(|&(tid, time_ns)| tid != event.tid && event.time_ns - time_ns < SAME_MOMENT_NS);
        let at_exec = self.life.start.find(fault.address).is_some_and(|mapping| mapping.rss_kib > 0);
        let vma = vma_at(player, addr);
        let is_file = vma.is_some_and(|vma| vma.flags.contains(STAND_IN));
        let is_copy_of_zero = self.life.forked_from.is_some()
            && met.is_zero
            && last.is_none()
            && vma.is_some_and(|vma| vma.anon.is_none());
        Some(match cause {
            Some(Cause::Absent) if is_file => Kind::FilePresent,
            Some(Cause::Absent) if at_exec => Kind::ExecPresent,
            _ if is_file => Kind::FileFault,
            _ if self.during_forks.contains(&addr.vpn()) => Kind::DuringFork,
            _ if is_copy_of_zero => Kind::ForkedZero,
            _ if met.is_huge && self.huge.is_recorded() => Kind::HugeSupply,
            _ if met.is_huge || self.could_be_huge(vma, addr) => Kind::HugeSetting,
            _ if other => Kind::OtherThread,
            None if is_retry(&self.life.events[..at], event, fault) => Kind::KernelRetried,
            None => Kind::NoFault,
            Some(_) => Kind::Cause,
        })
    }

    /// Whether the recorded machine may have had a huge page where this one, by another setting, has none.
    fn could_be_huge(&self, vma: Option<VmaAttributes>, addr: VirtAddr) -> bool {
        let (refusal, page) = (HugeRefusal::None, addr.vpn());
        let wanted = |vma: VmaAttributes| order_to_try(self.huge.recorded, refusal, &vma, page);
        !self.huge.is_recorded() && vma.is_some_and(|vma| wanted(vma) == Order::HUGE)
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
        let (address, offset) = (recorded.args[0], recorded.args[5]);
        let limited = self.limits.address_space_bytes.is_some() || self.limits.data_bytes.is_some();
        if call.expected == -12 && limited && ours >= 0 {
            return Kind::Limit;
        }
        let huge = PageSize::Huge.bytes();
        match call.act {
            Act::StandIn(request) if call.expected > 0 && ours > 0 => {
                let aligned = (call.expected as u64).wrapping_sub(offset).is_multiple_of(huge);
                match request.len_bytes >= huge && aligned {
                    true => Kind::FilePlace,
                    false => self.judge_place(at, recorded, call, ours),
                }
            }
            Act::Mprotect { .. } | Act::Madvise { .. } if is_stand_in(player, VirtAddr(address)) => {
                Kind::FileAnswer
            }
            _ if call.act.is_free_choice() && call.expected > 0 && ours > 0 => {
                self.judge_place(at, recorded, call, ours)
            }
            _ => Kind::Answer,
        }
    }

    /// Two calls that were under way at the same time took effect in an order that the recording cannot know.
    /// The place we chose is one that another such call gave back or took.
    fn judge_place(&self, at: usize, recorded: &Call, call: &CallStep, ours: i64) -> Kind {
        let len_bytes = call.chosen_end().saturating_sub(call.expected as u64);
        let ours = pages(ours as u64, len_bytes);
        let beside = self.moves.any_beside(recorded, self.life.events[at].tid, &ours);
        if beside { Kind::Meanwhile } else { Kind::Place }
    }
}

/// Whether anonymous memory stands in for a file's at the address.
pub fn is_stand_in(player: &Player<'_, '_>, addr: VirtAddr) -> bool {
    vma_at(player, addr).is_some_and(|vma| vma.flags.contains(STAND_IN))
}

/// Whether memory is shared at the address.
pub fn is_shared(player: &Player<'_, '_>, addr: VirtAddr) -> bool {
    vma_at(player, addr).is_some_and(|vma| vma.flags.contains(VmaFlags::SHARED))
}

/// Whether the last thing that the thread did before was the same fault, in the kernel: it was taken while
/// faults were disabled and refused, and is taken again where the kernel may wait.
fn is_retry(before: &[Event], event: &Event, fault: &Fault) -> bool {
    let last = before.iter().rev().find(|before| before.tid == event.tid);
    let is_same = |last: &Event| matches!(&last.kind, EventKind::Fault(last) if last == fault);
    fault.mode == Mode::Kernel && last.is_some_and(is_same)
}

fn vma_at(player: &Player<'_, '_>, addr: VirtAddr) -> Option<VmaAttributes> {
    player.space.vma_at(addr)
}

/// Pages on which other threads faulted while the fork of the event `at` was under way: whether those faults
/// took effect before the child's memory was copied, or after, was not recorded.
pub fn faulted_during_fork(events: &[Event], at: usize) -> Vec<Vpn> {
    let task = &events[at];
    let is_fork = |call: &Call| {
        matches!(call.sys, Sys::Fork | Sys::Clone | Sys::Clone3) && call.start_ns <= task.time_ns
    };
    let start_of = |event: &Event| match &event.kind {
        EventKind::Call(call) if event.tid == task.tid && is_fork(call) => Some(call.start_ns),
        _ => None,
    };
    let Some(start_ns) = events[at..].iter().find_map(start_of) else { return Vec::new() };
    let page_of = |event: &Event| match &event.kind {
        EventKind::Fault(fault) if event.tid != task.tid => Some(VirtAddr(fault.address).vpn()),
        _ => None,
    };
    events[..at].iter().rev().take_while(|event| event.time_ns >= start_ns).filter_map(page_of).collect()
}

/// Faults after which a signal that names their address was delivered to the same thread.
pub fn signalled(events: &[Event]) -> HashSet<usize> {
    let mut last = HashMap::new();
    let mut found = HashSet::new();
    for (at, event) in events.iter().enumerate() {
        match &event.kind {
            EventKind::Fault(fault) => {
                last.insert(event.tid, (at, fault.address));
            }
            EventKind::Signal(signal) => match last.get(&event.tid) {
                Some(&(fault, address)) if address == signal.address => {
                    found.insert(fault);
                }
                _ => {}
            },
            _ => {}
        }
    }
    found
}
