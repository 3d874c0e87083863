//! Resident memory of a life: ours, followed through faults and calls, and Linux's at the end. Of anonymous
//! memory alone: pages of files are the page cache's, and the trace does not tell their copies apart.
//!
//! A fault makes the pages present that are known beforehand; a call changes what lies in the ranges that it
//! names, which are counted before and after it. So each step takes time for what it does itself, however
//! much else is mapped.

use super::player::Player;
use super::setup::is_anonymous;
use super::step::{Act, CallStep, STAND_IN, has, pages};
use crate::trace::Image;
use interleaf::units::{PageSize, VirtAddr, VpnRange};
use interleaf_linux_abi::{self as linux, MREMAP_FIXED, MapFlags};
use serde::Serialize;
use std::iter;
use std::ops::Range;

/// Resident anonymous memory of a life, KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResidentLife {
    /// The most that it had.
    pub peak_kib: u64,
    /// At the end.
    pub end_kib: u64,
    /// Linux's at the end, where the trace has the last map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linux_end_kib: Option<u64>,
}

impl ResidentLife {
    /// Notes Linux's last map.
    pub fn note_linux(&mut self, image: &Image) {
        let kib = image.mappings.iter().filter(|m| is_anonymous(m)).map(|m| m.rss_kib).sum();
        self.linux_end_kib = Some(kib);
    }
}

/// Resident anonymous pages of a life under way.
#[derive(Debug)]
pub struct ResidentNow {
    /// Counted when the life is first played: a fork leaves its child pages.
    pages: Option<u64>,
    peak_pages: u64,
    may_be_huge: bool,
}

/// Pages of some ranges, before a call that may change them.
#[derive(Debug)]
pub struct Before {
    ranges: Vec<VpnRange>,
    pages: u64,
}

impl ResidentNow {
    /// Of a life that has not begun, and that may have huge pages or not.
    pub fn new(may_be_huge: bool) -> ResidentNow {
        ResidentNow { pages: None, peak_pages: 0, may_be_huge }
    }

    /// To be called before each step.
    pub fn begin(&mut self, player: &Player<'_, '_>) {
        if self.pages.is_none() {
            self.pages = Some(count(player, 0..u64::MAX));
            self.note_peak();
        }
    }

    /// A fault made so many pages of the mapping at the address present.
    pub fn add(&mut self, pages: u64, addr: VirtAddr, player: &Player<'_, '_>) {
        let vma = player.space.inspect().vma_at(addr);
        if vma.is_some_and(|vma| vma.is_anonymous() && !vma.flags.contains(STAND_IN)) {
            self.pages = self.pages.map(|now| now + pages);
            self.note_peak();
        }
    }

    /// Counts, before a call, what it may change.
    pub fn before(&self, call: &CallStep, player: &Player<'_, '_>) -> Before {
        let ranges = disjoint(changed(call, player).into_iter().map(|range| self.whole(range)).collect());
        let pages = ranges.iter().map(|&range| count_in(player, range)).sum();
        Before { ranges, pages }
    }

    /// Counts it again afterwards.
    pub fn after(&mut self, before: &Before, player: &Player<'_, '_>) {
        let pages: u64 = before.ranges.iter().map(|&range| count_in(player, range)).sum();
        self.pages = self.pages.map(|now| (now + pages).saturating_sub(before.pages));
        self.note_peak();
    }

    /// What the life came to, all of it counted once more.
    pub fn end(&mut self, player: &Player<'_, '_>) -> ResidentLife {
        self.begin(player);
        let counted = count(player, 0..u64::MAX);
        debug_assert_eq!(self.pages, Some(counted), "pages followed, and counted at the end");
        self.pages = Some(counted);
        self.note_peak();
        ResidentLife { peak_kib: self.peak_pages * 4, end_kib: counted * 4, linux_end_kib: None }
    }

    fn note_peak(&mut self) {
        self.peak_pages = self.peak_pages.max(self.pages.unwrap_or(0));
    }

    /// The range in pages; whole huge pages, where it may cut some.
    fn whole(&self, range: Range<u64>) -> VpnRange {
        let unit = if self.may_be_huge { PageSize::Huge.pages() } else { 1 };
        let (first, end) = (range.start >> 12, range.end.div_ceil(4096));
        let (first, end) = (first / unit * unit, end.div_ceil(unit) * unit);
        VpnRange::new(VirtAddr(first << 12).vpn(), VirtAddr(end.min(u64::MAX >> 12) << 12).vpn())
    }
}

/// The bytes in which a call may change which pages are present.
fn changed(call: &CallStep, player: &Player<'_, '_>) -> Vec<Range<u64>> {
    let place = |len: u64| u64::try_from(call.expected).ok().map(|at| pages(at, len));
    match call.act {
        Act::Mmap { addr, len, flags, .. } => {
            let fixed = has(flags, MapFlags::FIXED).then(|| pages(addr, len));
            place(len).into_iter().chain(fixed).collect()
        }
        Act::MapFile { request, .. } | Act::StandIn(request) => {
            place(request.len_bytes).into_iter().collect()
        }
        Act::Munmap { addr, len } | Act::Madvise { addr, len, .. } => vec![pages(addr, len)],
        Act::Brk { addr } => {
            let (now, then) = (linux::brk(player.space, 0), call.expected as u64);
            let lowest = if addr == 0 { then } else { then.min(addr) };
            iter::once(lowest & !0xfff..now.next_multiple_of(4096)).collect()
        }
        Act::Mremap { addr, old_len, new_len, flags, to } => {
            let fixed = (flags & MREMAP_FIXED != 0).then(|| pages(to, new_len));
            place(new_len).into_iter().chain(fixed).chain([pages(addr, old_len)]).collect()
        }
        Act::Mprotect { .. } | Act::Msync { .. } | Act::SetThpDisable(_) | Act::Nothing => Vec::new(),
    }
}

/// The same pages, none twice.
fn disjoint(mut ranges: Vec<VpnRange>) -> Vec<VpnRange> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<VpnRange> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

fn count(player: &Player<'_, '_>, bytes: Range<u64>) -> u64 {
    let (first, end) = (VirtAddr(bytes.start).vpn(), VirtAddr(bytes.end).vpn());
    count_in(player, VpnRange::new(first, end))
}

/// Resident pages of private anonymous memory in a range that cuts no huge page.
fn count_in(player: &Player<'_, '_>, range: VpnRange) -> u64 {
    // A huge page may lie in two mappings.
    let (mut run, mut pages) = (None::<VpnRange>, 0);
    let count = |run: Option<VpnRange>| run.map_or(0, |run| player.space.inspect().resident_in(run).pages());
    for vma in player.mappings(range.start.addr().0..range.end.addr().0) {
        if !vma.is_anonymous() || vma.flags.contains(STAND_IN) {
            continue;
        }
        let part = vma.range.intersect(range);
        match &mut run {
            Some(run) if run.end == part.start => run.end = part.end,
            _ => pages += count(run.replace(part)),
        }
    }
    pages + count(run)
}
