//! Pages of files, of which Linux's page cache decides when an entry comes and goes.
//!
//! A load maps the pages around it that the cache has (`fault_around_bytes`); a replay whose trace does not
//! say which they are maps its page alone. The cache gives pages up, and has them written back, when it sees
//! fit.

use super::checker::Checker;
use super::difference::DifferenceKind as Kind;
use super::files::{FileKind, FileTable};
use super::judge::AccessOutcome;
use super::objects::MIDDLE;
use super::player::Player;
use super::step::{Act, CallStep, Step, Steps, Tried, pages};
use crate::trace::{Access as FaultAccess, Cause, Fault};
use interleaf::units::{Access, Order, VirtAddr, Vpn, VpnRange};
use interleaf::vma::{VmaAttributes, VmaFlags, pages_of};
use interleaf_linux_abi::advice;
use std::ops::Range;

/// Linux's default of `fault_around_bytes`, in pages.
const AROUND_PAGES: u64 = 16;

/// The pages that a load maps, where the cache has them: as many as an aligned window has, from its start or
/// the mapping's on, in the mapping and in the table. (Linux: `do_fault_around`.)
fn window(page: Vpn, vma: &VmaAttributes) -> Range<u64> {
    let start = (page.0 / AROUND_PAGES * AROUND_PAGES).max(vma.range.start.0);
    let table_end = pages_of(Order::HUGE, page).end.0;
    start..(start + AROUND_PAGES).min(vma.range.end.0).min(table_end)
}

impl Checker<'_> {
    /// Notes, after an access, what Linux's fault may have mapped around it.
    pub(super) fn note_around(&mut self, addr: VirtAddr, tried: Tried, player: &Player<'_, '_>) {
        let is_load = tried != Tried::As(Access::Write);
        let vma = player.space.inspect().vma_at(addr).filter(|_| is_load);
        if let Some(vma) = vma.filter(|vma| player.objects.kind_of(vma).is_some()) {
            self.around.add(window(addr.vpn(), &vma));
        }
    }

    /// Notes what a call made present around the pages that it named, and forgets what it took away.
    pub(super) fn note_around_of_call(
        &mut self,
        call: &CallStep,
        populated: VpnRange,
        player: &Player<'_, '_>,
    ) {
        let given = u64::try_from(call.expected).ok();
        match (call.act, given) {
            (Act::Munmap { addr, len } | Act::Madvise { addr, len, advice: advice::DONTNEED }, Some(_)) => {
                self.around.remove_range(&pages(addr, len));
            }
            (Act::Mmap { len, .. }, Some(at)) => self.around.remove_range(&pages(at, len)),
            (Act::MapFile { request, .. } | Act::StandIn(request), Some(at)) => {
                self.around.remove_range(&pages(at, request.len_bytes));
            }
            _ => {}
        }
        if !populated.is_empty() && player.file_at(populated.start.addr()).is_some() {
            for page in (populated.start.0..populated.end.0).map(Vpn) {
                let vma = player.space.inspect().vma_at(page.addr());
                vma.into_iter().for_each(|vma| self.around.add(window(page, &vma)));
            }
        }
    }

    /// A page that is absent here, and was not for Linux: in the window of a load.
    pub(super) fn is_around(&self, addr: VirtAddr, player: &Player<'_, '_>) -> bool {
        player.file_at(addr).is_some() && self.around.contains(addr.vpn())
    }

    /// What of a difference at a page of a file the cache alone decided.
    pub(super) fn judge_cached(
        &self,
        fault: &Fault,
        outcome: AccessOutcome,
        vma: &VmaAttributes,
        player: &Player<'_, '_>,
    ) -> Option<Kind> {
        let kind = player.objects.kind_of(vma)?;
        let is_store = fault.access == FaultAccess::Write && vma.flags.contains(VmaFlags::SHARED);
        match fault.cause {
            Cause::Absent if outcome.is_present => Some(Kind::FileCache),
            Cause::Protection if outcome.raised == 0 && is_store && kind == FileKind::Disk => {
                Some(Kind::FileWritten)
            }
            _ => None,
        }
    }
}

impl Steps {
    /// The step, with what the page cache had around a load of a file.
    pub(super) fn with_cached(&self, step: Step, time_ns: u64, files: &FileTable) -> Step {
        let Step::Touch { addr, tried } = step else { return step };
        let found = self.unbuilt.file_at(addr.0).filter(|_| tried != Tried::As(Access::Write));
        let Some((mapped, file)) = found.filter(|(_, file)| files.kind(*file) == FileKind::Disk) else {
            return step;
        };
        let Some(offset) = self.unbuilt.file_offset(addr.0) else { return step };
        let has = |bit: u32| {
            let page = |at: u64| (at / 4096 + u64::from(bit)).checked_sub(u64::from(MIDDLE));
            let is_mapped = page(addr.0).is_some_and(|page| mapped.contains(&(page * 4096)));
            let of_file = page(offset).filter(|_| is_mapped && bit != MIDDLE);
            of_file.is_some_and(|page| files.has_cached(file, page, time_ns))
        };
        let cached = (0..=2 * MIDDLE).filter(|&bit| has(bit)).fold(0, |all, bit| all | 1 << bit);
        if cached == 0 { step } else { Step::TouchFile { addr, tried, cached } }
    }
}
