//! mremap by map and unmap: the library has no mremap yet.
//!
//! The place that Linux would choose comes from the library's rules (in place if the mapping ends there and
//! what follows is free, else where a new mapping of that length would go). The effect is imposed with map
//! and unmap. Pages that were present are made present at the new place by hand, since Linux moves their
//! entries and no fault is taken for them.

use super::player::{Player, answer};
use super::step::{Act, CallStep, round_up};
use interleaf::space::{Advice, MapBacking, MapRequest, Place, Sharing};
use interleaf::units::{PAGE_SIZE, PageSize, VirtAddr, VpnRange};
use interleaf::vma::{ThpDisable, VmaAttributes, VmaFlags};
use interleaf_linux_abi::{Errno, MREMAP_DONTUNMAP, MREMAP_FIXED};

const PAGE: u64 = PAGE_SIZE as u64;

/// A move, in whole pages.
#[derive(Clone, Copy)]
struct Move {
    from: u64,
    old_len: u64,
    new_len: u64,
    flags: u64,
}

impl Player<'_, '_> {
    /// Imposes a call that Linux granted, and returns where the library's rules would have put the memory.
    pub(super) fn remap(&self, call: &CallStep) -> i64 {
        let Act::Mremap { addr, old_len, new_len, flags, to } = call.act else { return call.expected };
        let round = |len: u64| round_up(len, PAGE);
        if addr.checked_add(round(old_len).max(round(new_len))).is_none() {
            return answer(Err(Errno::EINVAL));
        }
        let remap = Move { from: addr, old_len: round(old_len), new_len: round(new_len), flags };
        let Some(vma) = self.first_above(VirtAddr(addr)).filter(|vma| vma.range.start.addr().0 <= addr)
        else {
            return answer(Err(Errno::EFAULT));
        };
        let ours = if flags & MREMAP_FIXED != 0 { to as i64 } else { self.choose(&vma, remap, to) };
        self.impose(&vma, remap, call.expected as u64);
        ours
    }

    /// Where memory goes that keeps its old mapping is never where it is; `hint` counts for it alone.
    fn choose(&self, vma: &VmaAttributes, remap: Move, hint: u64) -> i64 {
        let Move { from, old_len, new_len, flags } = remap;
        let leaves_mapping = flags & MREMAP_DONTUNMAP != 0;
        let ends_here = vma.range.end.addr().0 == from + old_len;
        let grown = VirtAddr(from + old_len);
        let free = || !self.space.inspect().is_any_mapped(grown, new_len - old_len);
        if !leaves_mapping && (new_len <= old_len || (ends_here && free())) {
            return from as i64;
        }
        let place = Place::Hint(VirtAddr(if leaves_mapping { hint } else { 0 }));
        let request = MapRequest { place, sharing: sharing(vma), ..MapRequest::anonymous(new_len) };
        answer(self.space.choose_place(&request).map(|at| at.0).map_err(Errno::from))
    }

    fn impose(&self, vma: &VmaAttributes, remap: Move, to: u64) {
        let Move { from, old_len, new_len, flags } = remap;
        let flags_there = vma.flags - VmaFlags::ACCOUNT;
        let file = self.space.object_at(VirtAddr(from)).filter(|_| self.objects.kind_of(vma).is_some());
        let put = |at: u64, len_bytes: u64, skipped: u64| {
            let place = Place::Fixed(VirtAddr(at));
            let (flags, sharing) = (flags_there, sharing(vma));
            let request = MapRequest { place, flags, sharing, ..MapRequest::anonymous(len_bytes) };
            // What shows a file shows it from the same page on.
            let pages = file.as_ref().map(|(object, first)| object.at_page(first + skipped / PAGE));
            let request = request.backed_by(pages.unwrap_or(MapBacking::Anonymous));
            // Refused: the final map will show it.
            let _put = self.space.map(&request);
        };
        let drop_range = |at: u64, len: u64| {
            let _gone = self.space.unmap(VirtAddr(at), len);
        };
        if to == from {
            match new_len.checked_sub(old_len) {
                Some(0) => {}
                Some(more) => put(from + old_len, more, old_len),
                None => drop_range(from + new_len, old_len - new_len),
            }
            return;
        }
        put(to, new_len, 0);
        self.move_pages(vma, from, to, old_len.min(new_len));
        if flags & MREMAP_DONTUNMAP == 0 {
            drop_range(from, old_len);
        } else {
            let _dropped = self.space.advise(VirtAddr(from), old_len, Advice::DontNeed);
        }
    }

    /// Makes present at `to` what is present at `from`. Linux moves entries: a huge page arrives whole where
    /// the places are a multiple of its size apart and it lies in what is moved, and else as base pages, for
    /// which huge pages are disabled. What the program has disabled itself holds again afterwards.
    fn move_pages(&self, vma: &VmaAttributes, from: u64, to: u64, len: u64) {
        let thp_disable = self.space.thp_disable();
        let mut offset = 0;
        while offset < len {
            if let Some(next) = self.next_table(vma, from, offset) {
                offset = next;
                continue;
            }
            let moves_whole = self.moves_huge_page(from, to, offset, len);
            if moves_whole {
                self.move_huge_page(vma, from + offset, to + offset);
            } else {
                self.space.set_thp_disable(ThpDisable::Completely);
                self.make_present(vma, from + offset, to + offset);
            }
            offset += if moves_whole { PageSize::Huge.bytes() } else { PAGE };
        }
        self.space.set_thp_disable(thp_disable);
    }

    /// The offset of the next table of leaves, where one begins at the offset that has no entry. The entries
    /// of shared memory do not say which pages it has.
    fn next_table(&self, vma: &VmaAttributes, from: u64, offset: u64) -> Option<u64> {
        let table = PageSize::Huge.bytes();
        let begins = offset == 0 || (from + offset).is_multiple_of(table);
        let next = (from + offset) / table * table + table;
        let range = VpnRange::new(VirtAddr(from + offset).vpn(), VirtAddr(next).vpn());
        let is_skipped = begins && sharing(vma) == Sharing::Private && !self.has_entries(range);
        is_skipped.then_some(next - from)
    }

    /// Makes a huge page present at `to` for that at `from`, though neither the policy nor the program may
    /// want one any more: Linux moves the entry that is there.
    fn move_huge_page(&self, vma: &VmaAttributes, from: u64, to: u64) {
        self.space.set_thp_disable(ThpDisable::None);
        self.make_present(vma, from, to);
        if self.huge_page_at(VirtAddr(to).vpn()).is_some() {
            return;
        }
        self.space.set_thp_disable(ThpDisable::Completely);
        let huge = PageSize::Huge.bytes();
        (0..huge).step_by(PAGE_SIZE).for_each(|offset| self.make_present(vma, from + offset, to + offset));
        self.space.set_thp_disable(ThpDisable::None);
        // Refused where the mapping does not want huge pages: base pages are as present.
        let _collapsed = self.space.collapse(VirtAddr(to), huge);
    }

    /// Whether a huge page begins at the offset, and arrives as one.
    fn moves_huge_page(&self, from: u64, to: u64, offset: u64, len: u64) -> bool {
        let huge = PageSize::Huge.bytes();
        let page = VirtAddr(from + offset).vpn();
        from.abs_diff(to).is_multiple_of(huge)
            && offset + huge <= len
            && self.huge_page_at(page) == Some(page)
    }

    /// Makes the page at `to` present, if that at `from` is. A page that was only read keeps the zero page,
    /// so it is made present by a read.
    fn make_present(&self, vma: &VmaAttributes, from: u64, to: u64) {
        let page = VirtAddr(from).vpn();
        // Of the huge zero page, the first frame says what it is.
        let first = self.huge_page_at(page).unwrap_or(page);
        let Some((frame, is_of_object)) = self.space.inspect().resident_frame(first) else { return };
        // Of a file the entry moves, not what the page cache has; and a copy of it moves as one.
        let is_file = self.objects.kind_of(vma).is_some();
        if is_file && self.machine.leaf_at(page).is_none() {
            return;
        }
        let is_zero = self.space.vm().memory().zero_pages().is_zero_page(frame);
        let is_read = is_zero || is_file && is_of_object && vma.is_private();
        let is_written = vma.flags.contains(VmaFlags::WRITE) && !is_read;
        let advice = if is_written { Advice::PopulateWrite } else { Advice::PopulateRead };
        // Not made present: the next access faults, and the difference is listed.
        let _present = self.space.advise(VirtAddr(to), PAGE, advice);
    }
}

fn sharing(vma: &VmaAttributes) -> Sharing {
    if vma.flags.contains(VmaFlags::SHARED) { Sharing::Shared } else { Sharing::Private }
}
