//! Regions of 2 MiB that Linux may have mapped by a huge page where the replay has none.

use super::checker::Checker;
use super::player::Player;
use super::spans::Spans;
use super::step::{Act, CallStep, pages};
use crate::linux_rules::discard_frees_table;
use crate::trace::{Call, Sys};
use interleaf::units::{Order, PAGE_SIZE, PageSize, VirtAddr, Vpn};
use interleaf::vma::{HugeRefusal, VmaAttributes, order_to_try};
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
        if self.could_be_huge(player.space.vma_at(page.addr()), page.addr()) {
            self.regions.note_possible(page);
        }
    }

    /// Notes what a call changes about huge pages, ours and Linux's; it has been carried out. `populated` are
    /// the pages that it made present.
    pub(super) fn note_huge_change(&mut self, call: &CallStep, populated: &[Vpn], player: &Player<'_, '_>) {
        if call.expected < 0 {
            return;
        }
        let given = call.expected as u64;
        match call.act {
            Act::Munmap { addr, len } => self.forget_huge(&pages(addr, len)),
            Act::Mmap { len, .. } => self.forget_huge(&pages(given, len)),
            Act::StandIn(request) => self.forget_huge(&pages(given, request.len_bytes)),
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
    fn note_populated(&mut self, populated: &[Vpn], player: &Player<'_, '_>) {
        let (Some(first), Some(last)) = (populated.first(), populated.last()) else { return };
        for page in [first, last] {
            self.brought.extend(player.huge_page_at(*page));
        }
        self.brought.remove_range(&(first.addr().0..last.addr().0 + PAGE_SIZE as u64));
    }

    /// Pages that were moved came as they did before; those of a huge page are all there.
    fn move_brought(&mut self, from: u64, to: u64, len: u64, player: &Player<'_, '_>) {
        for offset in (0..len).step_by(PAGE_SIZE) {
            let (old, new) = (VirtAddr(from + offset).vpn(), VirtAddr(to + offset).vpn());
            if player.huge_page_at(new).is_some() || self.brought.contains(old) {
                self.brought.insert(new);
            } else {
                self.brought.remove(new);
            }
        }
        self.brought.remove_range(&pages(from, len));
    }

    /// MADV_DONTNEED of the range: the regions whose tables Linux frees, where memory may be huge.
    fn note_emptied(&mut self, range: &Range<u64>, player: &Player<'_, '_>) {
        let mut parts: Vec<(VmaAttributes, Range<u64>)> = Vec::new();
        player.space.each_vma(|vma| {
            let part = vma.range.start.addr().0.max(range.start)..vma.range.end.addr().0.min(range.end);
            if part.start < part.end {
                parts.push((*vma, part));
            }
        });
        for (vma, part) in parts {
            let first = part.start.next_multiple_of(HUGE);
            let is_wanted = || {
                order_to_try(self.huge.recorded, HugeRefusal::None, &vma, VirtAddr(first).vpn())
                    == Order::HUGE
            };
            if discard_frees_table(&part, first) && is_wanted() {
                self.regions.emptied.put(first..part.end / HUGE * HUGE, ());
            }
        }
    }
}
