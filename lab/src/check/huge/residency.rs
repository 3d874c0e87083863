//! Which pages are resident where huge pages are installed by faults: the obvious rules, region by region.
//!
//! | a region has | a store to a page of it | a load |
//! |---|---|---|
//! | nothing | *all pages*, or a table with the page | *all pages*, or a table with the page |
//! | a table | the page | the page |
//! | a huge page | nothing new | nothing new |
//! | the huge zero page | a huge page, or a table with all pages | nothing new |
//!
//! *All pages* where the region lies in one mapping that may have huge pages: a store then installs one, a
//! load the huge zero page.
//!
//! A range that cuts a huge page, or the huge zero page, leaves a table; munmap takes tables away where no
//! mapping is left.

use super::{HUGE, HUGE_BYTES};
use crate::check::calls::{Call, CallResult, PAGE, advice};
use crate::check::model::{Mapping, Spaces, VmFlags};
use interleaf::vma::HugePolicy;
use interleaf_linux_abi::MapFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What a region of the size of a huge page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Region {
    Table,
    Huge,
    Zero,
}

/// The resident pages of an arena, by address, and what its regions have; those that are missing have
/// nothing.
#[derive(Clone, Debug)]
pub struct Residency {
    policy: HugePolicy,
    regions: BTreeMap<u64, Region>,
    pages: BTreeSet<u64>,
}

fn region_of(addr: u64) -> u64 {
    addr / HUGE_BYTES * HUGE_BYTES
}

impl Residency {
    /// Nothing is resident.
    pub fn new(policy: HugePolicy) -> Self {
        Self { policy, regions: BTreeMap::new(), pages: BTreeSet::new() }
    }

    /// Whether the page at `addr` is resident.
    pub fn has(&self, addr: u64) -> bool {
        self.pages.contains(&addr)
    }

    /// Number of huge pages.
    pub fn huge_pages(&self) -> usize {
        self.regions.values().filter(|region| **region == Region::Huge).count()
    }

    /// Notes what a call did that the model has answered. `before` are the mappings before the call,
    /// `model` has those after it. All memory is private.
    pub fn note(&mut self, call: &Call, answer: &CallResult, before: &[Mapping], model: &Spaces) {
        let is_done = matches!(answer, CallResult::Value(_));
        match *call {
            Call::Munmap { addr, len } if is_done && overlaps(before, &(addr..addr + len)) => {
                self.remove(addr..addr + len);
                self.free_tables(&(addr..addr + len), model);
            }
            Call::Mmap { hint, len, flags, .. }
                if is_done && flags.contains(MapFlags::FIXED) && overlaps(before, &(hint..hint + len)) =>
            {
                self.remove(hint..hint + len);
            }
            Call::Mprotect { addr, len, .. } => self.cut(&(addr..changed_end(before, addr, len))),
            Call::Madvise { addr, len, advice } => self.advise((addr, len, advice), before, model),
            Call::Read { addr } if matches!(answer, CallResult::Byte(_)) => self.touch(addr, false, model),
            Call::Write { addr, .. } if *answer == CallResult::Written => self.touch(addr, true, model),
            _ => {}
        }
    }

    /// A fork splits all huge pages of mappings that the child gets with their contents, and the huge zero
    /// page where several mappings have parts of it.
    pub fn fork(&mut self, model: &Spaces) {
        for (&start, region) in &mut self.regions {
            let mut mappings = model.mappings(0);
            let is_whole = mappings.any(|vma| vma.start <= start && start + HUGE_BYTES <= vma.end);
            if *region != Region::Zero || !is_whole {
                *region = Region::Table;
            }
        }
    }

    fn advise(&mut self, (addr, len, number): (u64, u64, i32), before: &[Mapping], model: &Spaces) {
        let range = addr..addr + len;
        match number {
            advice::DONTNEED | advice::FREE => {
                for vma in before.iter().filter(|vma| vma.start < range.end && range.start < vma.end) {
                    let part = vma.start.max(range.start)..vma.end.min(range.end);
                    if number == advice::DONTNEED { self.remove(part) } else { self.cut(&part) }
                }
            }
            advice::POPULATE_READ | advice::POPULATE_WRITE => {
                let right = if number == advice::POPULATE_READ { VmFlags::READ } else { VmFlags::WRITE };
                for page in range.step_by(PAGE as usize) {
                    let vma = model.mappings(0).find(|vma| vma.start <= page && page < vma.end);
                    if !vma.is_some_and(|vma| vma.flags.contains(right)) {
                        break;
                    }
                    self.touch(page, right == VmFlags::WRITE, model);
                }
            }
            _ => {}
        }
    }

    fn touch(&mut self, addr: u64, is_store: bool, model: &Spaces) {
        let (page, region) = (addr / PAGE * PAGE, region_of(addr));
        let has = self.regions.get(&region).copied();
        if has.is_none() || has == Some(Region::Zero) && is_store {
            let may_be_huge = model.mappings(0).any(|vma| self.may_be_huge(vma, region));
            let now = match (may_be_huge, is_store) {
                (false, _) => Region::Table,
                (true, true) => Region::Huge,
                (true, false) => Region::Zero,
            };
            self.regions.insert(region, now);
            if now != Region::Table {
                self.pages.extend((0..HUGE).map(|nth| region + nth * PAGE));
            }
        }
        self.pages.insert(page);
    }

    fn may_be_huge(&self, vma: &Mapping, region: u64) -> bool {
        let is_wanted = match self.policy {
            HugePolicy::Never => false,
            HugePolicy::Madvise => vma.flags.contains(VmFlags::HUGEPAGE),
            HugePolicy::Always => !vma.flags.contains(VmFlags::NOHUGEPAGE),
        };
        is_wanted && vma.start <= region && region + HUGE_BYTES <= vma.end && vma.object.is_none()
    }

    /// Huge pages that the range cuts at its ends become tables.
    fn cut(&mut self, range: &Range<u64>) {
        for end in [range.start, range.end] {
            if !end.is_multiple_of(HUGE_BYTES)
                && let Some(region) = self.regions.get_mut(&region_of(end))
            {
                *region = Region::Table;
            }
        }
    }

    fn remove(&mut self, range: Range<u64>) {
        self.cut(&range);
        self.pages.retain(|page| !range.contains(page));
        self.regions.retain(|region, has| *has == Region::Table || !range.contains(region));
    }

    /// Tables go where the range has taken the last mapping of what they cover.
    fn free_tables(&mut self, range: &Range<u64>, model: &Spaces) {
        self.regions.retain(|&region, _| {
            let covered = region..region + HUGE_BYTES;
            let is_touched = covered.start < range.end && range.start < covered.end;
            !is_touched || model.mappings(0).any(|vma| vma.start < covered.end && covered.start < vma.end)
        });
    }
}

fn overlaps(mappings: &[Mapping], range: &Range<u64>) -> bool {
    mappings.iter().any(|vma| vma.start < range.end && range.start < vma.end)
}

/// Where mprotect has stopped: at the first hole.
fn changed_end(mappings: &[Mapping], addr: u64, len: u64) -> u64 {
    let mut at = addr;
    while at < addr + len {
        let Some(vma) = mappings.iter().find(|vma| vma.start <= at && at < vma.end) else { return at };
        at = vma.end.min(addr + len);
    }
    at
}
