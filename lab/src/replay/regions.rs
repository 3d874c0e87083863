//! Regions of 2 MiB that Linux may have mapped by a huge page where the replay has none.

use super::checker::Checker;
use super::player::Player;
use super::spans::Spans;
use super::step::{Act, CallStep, pages};
use crate::linux_rules::discard_frees_table;
use crate::trace::{Call, Sys};
use interleaf::units::{Order, PageSize, VirtAddr, Vpn, VpnRange};
use interleaf::vma::{ThpDisable, order_to_try};
use interleaf_linux_abi::advice;
use std::ops::Range;

const HUGE: u64 = PageSize::Huge.bytes();

/// Such regions, until they are unmapped: what splits a huge page leaves the pages that came with it.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    /// Under another setting: those in which a fault may have brought Linux a larger page.
    possible: Spans<()>,
    /// Those of memory that may be huge whose tables MADV_DONTNEED has emptied.
    emptied: Spans<()>,
    /// Those in the range of a collapse that was refused, before which it may have made some huge.
    collapsed: Spans<()>,
}

impl Regions {
    /// A fault at the page may have brought Linux a larger page than here.
    pub fn note_possible(&mut self, page: Vpn) {
        let first = page.addr().0 / HUGE * HUGE;
        self.possible.put(first..first + HUGE, ());
    }

    /// Whether one may have been brought in the region of the address.
    pub fn is_possible(&self, addr: VirtAddr) -> bool {
        self.possible.at(addr.0).is_some()
    }

    /// Whether the table of the region was emptied.
    pub fn is_emptied(&self, addr: VirtAddr) -> bool {
        self.emptied.at(addr.0).is_some()
    }

    /// Whether the region may have been collapsed by a call that was refused.
    pub fn may_be_collapsed(&self, addr: VirtAddr) -> bool {
        self.collapsed.at(addr.0).is_some()
    }

    /// Notes the range of a call, if it is a collapse that was refused.
    pub fn note_collapse(&mut self, call: &Call) {
        let [addr, len, number, ..] = call.args;
        let is_collapse = call.sys == Sys::Madvise && number as i32 == advice::COLLAPSE;
        if !is_collapse || call.result.is_none_or(|result| result >= 0) {
            return;
        }
        let range = pages(addr, len);
        let (first, end) = (range.start.next_multiple_of(HUGE), range.end / HUGE * HUGE);
        if first < end {
            self.collapsed.put(first..end, ());
        }
    }

    /// What was at `old` is at `to` now.
    fn move_to(&mut self, old: &Range<u64>, to: u64) {
        let delta = to.wrapping_sub(old.start);
        for spans in [&mut self.possible, &mut self.emptied, &mut self.collapsed] {
            for (part, ()) in spans.take(old) {
                spans.put(part.start.wrapping_add(delta)..part.end.wrapping_add(delta), ());
            }
        }
    }

    fn forget(&mut self, range: &Range<u64>) {
        self.possible.take(range);
        self.emptied.take(range);
        self.collapsed.take(range);
    }
}

impl Checker<'_> {
    /// Notes, after a fault at the page, what came with it.
    pub(super) fn note_touched(&mut self, page: Vpn, was_present: bool, player: &Player<'_, '_>) {
        if !was_present {
            self.brought.extend(player.huge_page_at(page));
            self.brought.remove(page);
        }
        if self.could_be_huge(player.space.inspect().vma_at(page.addr()), page.addr()) {
            self.regions.note_possible(page);
        }
    }

    /// Notes what a call changes about huge pages, ours and Linux's; it has been carried out. `populated` are
    /// the pages that it made present.
    pub(super) fn note_huge_change(&mut self, call: &CallStep, populated: VpnRange, player: &Player<'_, '_>) {
        if call.expected < 0 {
            return;
        }
        let given = call.expected as u64;
        match call.act {
            Act::Munmap { addr, len } => self.forget_huge(&pages(addr, len)),
            Act::Mmap { len, .. } => self.forget_huge(&pages(given, len)),
            Act::MapFile { request, .. } | Act::StandIn(request) => {
                self.forget_huge(&pages(given, request.len_bytes));
            }
            Act::Mremap { addr, old_len, new_len, .. } if given != addr => {
                self.move_brought(addr, given, old_len.min(new_len), player);
                self.regions.forget(&pages(given, new_len));
                self.regions.move_to(&pages(addr, old_len), given);
            }
            Act::Madvise { addr, len, advice: advice::DONTNEED } => {
                self.brought.remove_range(&pages(addr, len));
                self.note_emptied(&pages(addr, len), player);
            }
            _ => self.note_populated(populated, player),
        }
    }

    fn forget_huge(&mut self, range: &Range<u64>) {
        self.brought.remove_range(range);
        self.regions.forget(range);
    }

    /// A huge page that a populating call brings reaches beyond the pages that it was asked for.
    fn note_populated(&mut self, populated: VpnRange, player: &Player<'_, '_>) {
        if populated.is_empty() {
            return;
        }
        for page in [populated.start, Vpn(populated.end.0 - 1)] {
            self.brought.extend(player.huge_page_at(page));
        }
        self.brought.remove_pages(populated.start.0..populated.end.0);
    }

    /// Pages that were moved came as they did before; those of a huge page are all there.
    fn move_brought(&mut self, from: u64, to: u64, len: u64, player: &Player<'_, '_>) {
        let (old, new) = (pages(from, len), pages(to, len));
        let came = self.brought.in_range(old.start / 4096..old.end / 4096);
        self.brought.remove_range(&old);
        self.brought.remove_range(&new);
        came.into_iter()
            .for_each(|page| self.brought.insert(Vpn(page - old.start / 4096 + new.start / 4096)));
        let huge = player.pages_with_entries(new).filter(|page| player.huge_page_at(*page).is_some());
        huge.for_each(|page| self.brought.insert(page));
    }

    /// MADV_DONTNEED of the range: the regions whose tables Linux frees, where memory may be huge.
    fn note_emptied(&mut self, range: &Range<u64>, player: &Player<'_, '_>) {
        for vma in player.mappings(range.clone()) {
            let part = vma.range.start.addr().0.max(range.start)..vma.range.end.addr().0.min(range.end);
            let first = part.start.next_multiple_of(HUGE);
            let is_wanted = || {
                order_to_try(self.huge.recorded, ThpDisable::None, &vma, VirtAddr(first).vpn()) == Order::HUGE
            };
            if discard_frees_table(&part, first) && is_wanted() {
                self.regions.emptied.put(first..part.end / HUGE * HUGE, ());
            }
        }
    }
}
