//! Calls that are imposed: what follows from them is noted, so that it is not taken for a difference.

use super::checker::Checker;
use super::judge;
use super::player::Player;
use super::step::{CallStep, Way, pages};
use super::unbuilt::{GUARD_INSTALL, GUARD_REMOVE};
use crate::trace::{Kind as EventKind, Sys};
use interleaf::units::{Rights, VirtAddr};
use interleaf_linux_abi::{MREMAP_DONTUNMAP, advice};
use std::ops::Range;

/// `MADV_REMOVE` of Linux.
const MADV_REMOVE: i32 = 9;

impl Checker<'_> {
    /// What a call that is not built does to edges of mappings is not done here.
    pub(super) fn note_imposed(&mut self, at: usize, call: &CallStep, player: &Player<'_, '_>) {
        let EventKind::Call(recorded) = &self.life.events[at].kind else { return };
        let [first, second, third, fourth, ..] = recorded.args;
        if recorded.sys == Sys::Mremap && fourth & MREMAP_DONTUNMAP != 0 {
            // The mapping that stays has no pages any more, and so no identity.
            self.imposed.add(pages(first, second));
        }
        self.imposed.add(match recorded.sys {
            _ if call.expected < 0 || call.collapsed_pages() > 0 => return,
            Sys::Mremap => pages(call.expected as u64, third),
            Sys::Mlockall | Sys::Munlockall => 0..u64::MAX,
            Sys::Prctl => pages(third, fourth),
            Sys::Mmap | Sys::MapShadowStack => pages(call.expected as u64, second),
            // A mapping with guards has an identity.
            Sys::Madvise if third as i32 == GUARD_INSTALL => extent(&pages(first, second), player),
            _ => pages(first, second),
        });
    }

    /// Notes, before a call that is not built is imposed, the pages that Linux treats as it asked.
    pub(super) fn note_imposed_pages(&mut self, at: usize, call: &CallStep, player: &Player<'_, '_>) {
        let EventKind::Call(recorded) = &self.life.events[at].kind else { return };
        if call.way != Way::Imposed || call.expected < 0 {
            return;
        }
        let [first, old_len, new_len, ..] = recorded.args;
        if recorded.sys == Sys::Mremap && player.is_of_several() {
            self.note_moved_shared(first, old_len.min(new_len), call.expected as u64, player);
        }
        self.imposed_pages.add(match recorded.sys {
            Sys::Mlock | Sys::Mlock2 => pages(first, old_len),
            Sys::Mlockall => 0..u64::MAX,
            Sys::Mmap => pages(call.expected as u64, old_len),
            // The object's pages are dropped, in every space that maps it.
            Sys::Madvise if new_len as i32 == MADV_REMOVE => {
                let removed = pages(first, old_len);
                self.removed.push(removed.clone());
                removed
            }
            Sys::Madvise if is_of_unknown_effect(new_len as i32) => pages(first, old_len),
            // The object of shared memory does not grow: beyond its end there is SIGBUS.
            Sys::Mremap if new_len > old_len && judge::is_shared(player, VirtAddr(first)) => {
                pages((call.expected as u64).saturating_add(old_len), new_len - old_len)
            }
            _ => return,
        });
    }

    /// Entries that a fork took the right to write from stay so when Linux moves them; a page that is moved
    /// by hand gets a frame of its own, which may be written.
    fn note_moved_shared(&mut self, from: u64, len: u64, to: u64, player: &Player<'_, '_>) {
        if from == to {
            return;
        }
        for page in player.pages_with_entries(from..from.saturating_add(len)) {
            let leaf = player.machine.leaf_at(page);
            if leaf.is_some_and(|leaf| !leaf.rights.contains(Rights::WRITE)) {
                self.imposed_pages.add(pages(to + (page.addr().0 - from), 1));
            }
        }
    }
}

/// Whether advice that is not built may do something to pages that no rule here follows: merge, reclaim or
/// poison them.
fn is_of_unknown_effect(number: i32) -> bool {
    advice::advice(number).is_none() && ![GUARD_INSTALL, GUARD_REMOVE].contains(&number)
}

/// From the start of the first mapping with pages of a range to the end of the last.
fn extent(range: &Range<u64>, player: &Player<'_, '_>) -> Range<u64> {
    let mut extent = range.clone();
    for vma in player.mappings(range.clone()) {
        let (start, end) = (vma.range.start.addr().0, vma.range.end.addr().0);
        extent = extent.start.min(start)..extent.end.max(end);
    }
    extent
}
