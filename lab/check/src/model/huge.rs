//! Huge pages: what each region of 2 MiB is mapped by.
//!
//! | a region has | a store to a page of it | a load |
//! |---|---|---|
//! | nothing | *all pages*, or a table with the page | *all pages*, or a table with the page |
//! | a table | the page | the page |
//! | a huge page | nothing new; a table, where a fork shares it | nothing new |
//! | the huge zero page | a huge page, or a table with all pages | nothing new |
//!
//! *All pages* where the region lies in one mapping that may have huge pages: a store then installs one, a
//! load the huge zero page. What cuts a huge leaf leaves a table. Tables go where no mapping is left.
//!
//! A fork shares huge pages, so it matters which others map a part of one: a store to a huge page of which
//! another process has the least part splits the leaf and copies one page. So each huge page has a number,
//! and a page in a table knows whose part it is.

use super::mapping::{Mapping, VmFlags};
use super::{Contents, Model, Page};
use crate::calls::{Errno, HUGE_BYTES, HugeLeaf, PAGE};
use crate::huge_rules::HugeRules;
use interleaf::vma::HugePolicy;
use interleaf_lab::linux_rules::discard_frees_table;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What maps a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Region {
    Table,
    /// The huge page of this number.
    Huge(u32),
    Zero,
}

/// The regions of a space; those that are missing are mapped by nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Regions {
    by_start: BTreeMap<u64, Region>,
    /// Of pages in tables, those that are parts of huge pages, or of mTHP folios.
    parts: BTreeMap<u64, u32>,
    /// The pages of each mTHP folio.
    folio_pages: BTreeMap<u32, u64>,
}

impl Regions {
    /// The huge pages of which the space has a part.
    pub(super) fn folios(&self) -> impl Iterator<Item = u32> {
        let whole = self.by_start.values().filter_map(|region| match region {
            Region::Huge(folio) => Some(*folio),
            _ => None,
        });
        whole.chain(self.parts.values().copied())
    }

    /// The huge leaves within a range, upwards.
    pub(super) fn leaves(&self, range: &Range<u64>) -> Vec<(u64, HugeLeaf)> {
        let leaf = |(&start, region): (&u64, &Region)| match region {
            Region::Table => None,
            Region::Huge(_) => Some((start, HugeLeaf::Own)),
            Region::Zero => Some((start, HugeLeaf::Zero)),
        };
        self.by_start.range(range.clone()).filter_map(leaf).collect()
    }

    /// The leaf of a region becomes a table with the same pages.
    fn split(&mut self, region: u64) {
        if let Some(Region::Huge(folio)) = self.by_start.get(&region).copied() {
            self.parts.extend(pages_of(region).map(|page| (page, folio)));
        }
        if let Some(leaf) = self.by_start.get_mut(&region) {
            *leaf = Region::Table;
        }
    }

    /// Splits the leaves that the range cuts at its ends.
    fn cut(&mut self, range: &Range<u64>) {
        for end in [range.start, range.end] {
            if !end.is_multiple_of(HUGE_BYTES) {
                self.split(region_of(end));
            }
        }
    }
}

impl Model {
    fn has_huge_pages(&self) -> bool {
        !self.setting.huge.is_never()
    }

    fn follows(&self, rule: HugeRules) -> bool {
        self.setting.huge.rules.contains(rule)
    }

    /// A touch of private memory at `addr`, as far as huge pages are concerned. Whether the page is there
    /// then; else a base page is to come.
    pub(super) fn touch_huge(&mut self, addr: u64, is_store: bool) -> bool {
        if !self.has_huge_pages() {
            return false;
        }
        let (region, page) = (region_of(addr), addr / PAGE * PAGE);
        match (self.regions.by_start.get(&region).copied(), is_store) {
            (None, _) if !self.may_be_huge(region) => false,
            (None, true) => self.fill(region),
            (None, false) => {
                if self.follows(HugeRules::LOADS_GIVE_IDENTITY) {
                    self.give_anon(addr);
                }
                self.pages.extend(pages_of(region).map(|page| (page, Page::Zero)));
                self.regions.by_start.insert(region, Region::Zero);
                true
            }
            (Some(Region::Table), true) => {
                if self.regions.parts.get(&page).is_some_and(|folio| self.objects.held_folios.contains(folio))
                {
                    self.regions.parts.remove(&page);
                }
                false
            }
            (Some(Region::Huge(folio)), true) if self.objects.held_folios.contains(&folio) => {
                self.regions.split(region);
                self.regions.parts.remove(&page);
                true
            }
            (Some(Region::Zero), true) => {
                if self.follows(HugeRules::STORES_IGNORE_REFUSAL) || self.may_be_huge(region) {
                    return self.fill(region);
                }
                self.regions.split(region);
                false
            }
            (Some(Region::Table), false) => false,
            (Some(Region::Huge(_) | Region::Zero), _) => true,
        }
    }

    /// Notes that the page at `addr` is mapped by an entry of its own, if nothing larger maps it.
    pub(super) fn note_table(&mut self, addr: u64) {
        if self.has_huge_pages() {
            self.regions.by_start.entry(region_of(addr)).or_insert(Region::Table);
        }
    }

    /// A huge page comes where the region has nothing, or the zero page.
    fn fill(&mut self, region: u64) -> bool {
        self.give_anon(region);
        self.install_folio(region);
        true
    }

    /// Notes that the pages are an mTHP folio.
    pub(super) fn note_folio(&mut self, folio: Range<u64>) {
        self.objects.next_folio += 1;
        let number = self.objects.next_folio;
        self.regions.folio_pages.insert(number, (folio.end - folio.start) / PAGE);
        self.regions.parts.extend(folio.step_by(PAGE as usize).map(|page| (page, number)));
    }

    fn install_folio(&mut self, region: u64) {
        for page in pages_of(region) {
            let own = Page::Own(Contents::default());
            if !matches!(self.pages.get(&page), Some(Page::Own(_))) {
                self.pages.insert(page, own);
            }
            self.regions.parts.remove(&page);
        }
        self.objects.next_folio += 1;
        self.regions.by_start.insert(region, Region::Huge(self.objects.next_folio));
    }

    fn may_be_huge(&self, region: u64) -> bool {
        self.may_be_folio(self.setting.huge.policy, &(region..region + HUGE_BYTES))
    }

    /// Whether the policy of a size lets a store make all pages of the range present.
    pub(super) fn may_be_folio(&self, policy: HugePolicy, range: &Range<u64>) -> bool {
        let is_wanted = |vma: &Mapping| match policy {
            HugePolicy::Never => false,
            HugePolicy::Madvise => vma.flags.contains(VmFlags::HUGEPAGE),
            HugePolicy::Always => !vma.flags.contains(VmFlags::NOHUGEPAGE),
        };
        let whole = |vma: &&Mapping| range.end <= vma.end;
        self.mappings.at(range.start).filter(whole).is_some_and(|vma| vma.object.is_none() && is_wanted(vma))
    }

    /// The range loses its private pages.
    pub(super) fn drop_regions(&mut self, range: &Range<u64>) {
        self.regions.cut(range);
        self.regions.by_start.retain(|start, leaf| *leaf == Region::Table || !range.contains(start));
        self.regions.parts.retain(|page, _| !range.contains(page));
    }

    /// Tables go where the range has taken the last mapping of what they cover.
    pub(super) fn free_tables(&mut self, range: &Range<u64>) {
        let mappings = &self.mappings;
        self.regions.by_start.retain(|&region, _| {
            let covered = region..region + HUGE_BYTES;
            let is_touched = covered.start < range.end && range.start < covered.end;
            !is_touched || !mappings.is_free(&covered)
        });
    }

    /// MADV_DONTNEED of a part of a mapping: tables that it has emptied.
    pub(super) fn free_emptied(&mut self, part: &Range<u64>) {
        if self.follows(HugeRules::DISCARDS_FREE_TABLES) {
            self.regions.by_start.retain(|&region, _| !discard_frees_table(part, region));
        }
    }

    /// The rights of the range have changed.
    pub(super) fn cut_for_rights(&mut self, range: &Range<u64>) {
        if !self.follows(HugeRules::MAPPINGS_SPLIT) && !range.is_empty() {
            self.regions.cut(range);
        }
    }

    /// After a call: leaves in which a mapping begins or ends.
    pub(super) fn cut_for_mappings(&mut self) {
        if !self.follows(HugeRules::MAPPINGS_SPLIT) {
            return;
        }
        let is_cut = |&start: &u64| self.mappings.at(start).is_none_or(|vma| vma.end < start + HUGE_BYTES);
        let cut: Vec<u64> = self.regions.by_start.keys().copied().filter(is_cut).collect();
        cut.into_iter().for_each(|region| self.regions.split(region));
    }

    /// MADV_FREE of a part of a private mapping. The huge zero page stays.
    pub(super) fn free_parts(&mut self, part: &Range<u64>) {
        let first = region_of(part.start);
        for region in (first..part.end).step_by(HUGE_BYTES as usize) {
            let is_whole = part.start <= region && region + HUGE_BYTES <= part.end;
            let state = self.regions.by_start.get(&region).copied();
            if !self.follows(HugeRules::FREE_FINDS_ZEROS) {
                if matches!(state, Some(Region::Huge(_))) && !is_whole {
                    self.regions.split(region);
                }
                continue;
            }
            match state {
                Some(Region::Huge(folio)) if !is_whole && !self.objects.held_folios.contains(&folio) => {
                    self.regions.split(region);
                    self.split_folio(region, folio);
                }
                Some(Region::Table) => self.free_parts_in_table(region, part),
                _ => {}
            }
        }
    }

    /// The same where there is a table: a huge page of which not all parts are meant is split.
    fn free_parts_in_table(&mut self, region: u64, part: &Range<u64>) {
        let parts = self.regions.parts.range(region..region + HUGE_BYTES);
        let meant: BTreeSet<u32> =
            parts.clone().filter(|(page, _)| part.contains(page)).map(|(_, &folio)| folio).collect();
        let is_all = |folio: &u32| {
            let due = self.regions.folio_pages.get(folio).copied().unwrap_or(HUGE_BYTES / PAGE);
            parts.clone().filter(|(page, of)| *of == folio && part.contains(page)).count() as u64 == due
        };
        let meant: Vec<u32> = meant.into_iter().filter(|folio| !is_all(folio)).collect();
        for folio in meant {
            if !self.objects.held_folios.contains(&folio) {
                self.split_folio(region, folio);
            }
        }
    }

    /// A huge page that is mapped by a table becomes base pages; those that hold zeros, the zero page.
    fn split_folio(&mut self, region: u64, folio: u32) {
        for page in pages_of(region) {
            if self.regions.parts.get(&page) != Some(&folio) {
                continue;
            }
            self.regions.parts.remove(&page);
            if matches!(self.pages.get(&page), Some(Page::Own(contents)) if contents.is_zero()) {
                self.pages.insert(page, Page::Zero);
            }
        }
    }

    /// MADV_COLLAPSE of a part of one mapping.
    pub(super) fn collapse(&mut self, mapping: &Mapping, part: &Range<u64>) -> Result<(), Errno> {
        let first_region = mapping.start.next_multiple_of(HUGE_BYTES);
        let may = self.has_huge_pages()
            && mapping.object.is_none()
            && !mapping.flags.contains(VmFlags::NOHUGEPAGE)
            && first_region + HUGE_BYTES <= mapping.end
            && (mapping.anon.is_some() || !self.follows(HugeRules::COLLAPSE_WANTS_IDENTITY));
        let (first, last) = (part.start.next_multiple_of(HUGE_BYTES), part.end / HUGE_BYTES * HUGE_BYTES);
        if !may || first > last {
            return Err(Errno::EINVAL);
        }
        let mut result = Ok(());
        for region in (first..last).step_by(HUGE_BYTES as usize) {
            match self.regions.by_start.get(&region) {
                Some(Region::Huge(_) | Region::Zero) => {}
                None if self.follows(HugeRules::COLLAPSE_STOPS_AT_NOTHING) => return Err(Errno::EINVAL),
                None => result = Err(Errno::EINVAL),
                Some(Region::Table) if self.follows(HugeRules::COLLAPSE_WANTS_IDENTITY) => {
                    self.install_folio(region);
                }
                Some(Region::Table) => {
                    let mut own = self.pages.range(region..region + HUGE_BYTES);
                    if own.any(|(_, page)| matches!(page, Page::Own(_))) {
                        self.install_folio(region);
                    } else {
                        result = Err(Errno::EINVAL);
                    }
                }
            }
        }
        result
    }

    /// What a child has, whose mappings and pages are copied already.
    pub(super) fn fork_regions(&mut self, child: &mut Self, is_copied: impl Fn(&Mapping) -> bool) {
        child.regions.by_start.clear();
        child.regions.parts.retain(|page, _| child.pages.contains_key(page));
        let regions: Vec<(u64, Region)> = self.regions.by_start.iter().map(|(&at, &it)| (at, it)).collect();
        for (start, region) in regions {
            let copied: Vec<&Mapping> = child
                .mappings
                .overlapping(&(start..start + HUGE_BYTES))
                .filter(|vma| is_copied(vma))
                .collect();
            if copied.is_empty() {
                continue;
            }
            let is_whole = copied.iter().any(|vma| vma.start <= start && start + HUGE_BYTES <= vma.end);
            let keeps = match region {
                Region::Table => true,
                Region::Zero | Region::Huge(_) => is_whole,
            };
            if !keeps {
                self.regions.split(start);
            }
            let inherited = if keeps { region } else { Region::Table };
            let has_pages = child.pages.range(start..start + HUGE_BYTES).next().is_some();
            if has_pages || self.follows(HugeRules::FORK_COPIES_EMPTY_TABLES) {
                child.regions.by_start.insert(start, inherited);
            }
        }
    }
}

fn region_of(addr: u64) -> u64 {
    addr / HUGE_BYTES * HUGE_BYTES
}

fn pages_of(region: u64) -> impl Iterator<Item = u64> {
    (region..region + HUGE_BYTES).step_by(PAGE as usize)
}
