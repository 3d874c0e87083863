//! Mappings, and when two of them become one.
//!
//! Attributes that `/proc/self/maps` does not show count too: whether the memory is committed (ACCOUNT),
//! advice, and the *anon identity*. Linux gives a mapping such an identity when its first private page is
//! made; a neighbour that looks the same takes over the neighbour's, any other gets a new one. Mappings with
//! different identities never merge; one without merges with any but those that a fork made.

use super::Policy;
use crate::calls::{Errno, PAGE, Prot};
use std::collections::BTreeMap;
use std::ops::Range;

bitflags::bitflags! {
    /// What Linux compares when it merges; not its numbers.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    pub struct VmFlags: u32 {
        /// Data may be read.
        const READ = 1;
        /// Data may be written.
        const WRITE = 2;
        /// Instructions may be fetched.
        const EXEC = 4;
        /// Stores are the object's.
        const SHARED = 8;
        /// Never counted as committed.
        const NORESERVE = 16;
        /// Counted as committed.
        const ACCOUNT = 32;
        /// Advice: read at random.
        const RANDOM = 64;
        /// Advice: read in order.
        const SEQUENTIAL = 128;
        /// Advice: a child does not get it.
        const DONTFORK = 256;
        /// Advice: not in core dumps.
        const DONTDUMP = 512;
        /// Advice: a child gets zeroes.
        const WIPEONFORK = 1024;
        /// Advice: huge pages wanted.
        const HUGEPAGE = 2048;
        /// Advice: no huge pages.
        const NOHUGEPAGE = 4096;
        /// All rights.
        const RIGHTS = 7;
    }
}

impl VmFlags {
    /// The rights as `mprotect` takes them.
    #[must_use]
    pub fn prot(self) -> Prot {
        Prot::from_bits_retain((self & Self::RIGHTS).bits())
    }

    /// Rights as flags; other bits are dropped.
    #[must_use]
    pub fn rights(prot: Prot) -> Self {
        Self::from_bits_truncate(prot.bits()) & Self::RIGHTS
    }
}

/// One mapping. Addresses are in bytes.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Mapping {
    /// First byte.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
    /// Rights, kind, advice.
    pub flags: VmFlags,
    /// The object whose pages it shows, none for anonymous memory.
    pub object: Option<u32>,
    /// Number of the first page: within the object, or of the address itself.
    pub offset: u64,
    /// The anon identity, given at the first private copy.
    pub anon: Option<Anon>,
    /// The memory policy, none for the default.
    pub policy: Option<Policy>,
}

impl Mapping {
    /// Whether stores are seen by others.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.flags.contains(VmFlags::SHARED)
    }

    /// Pages from start to end.
    #[must_use]
    pub fn pages(&self) -> u64 {
        (self.end - self.start) / PAGE
    }

    /// Number of the page that holds `addr`, counted as `offset` is.
    #[must_use]
    pub fn page_offset(&self, addr: u64) -> u64 {
        self.offset + (addr - self.start) / PAGE
    }

    /// The part from `start` to `end`.
    #[must_use]
    pub fn part(&self, start: u64, end: u64) -> Self {
        Self { start, end, offset: self.page_offset(start), ..self.clone() }
    }

    /// Whether `right` goes on where this one ends, in addresses and in offsets, with the same policy.
    fn continues_in(&self, right: &Self) -> bool {
        self.end == right.start
            && self.object == right.object
            && self.offset + self.pages() == right.offset
            && self.policy == right.policy
    }

    /// Whether the two could be one mapping.
    #[must_use]
    pub fn merges_with(&self, right: &Self) -> bool {
        self.continues_in(right) && self.flags == right.flags && anons_agree(self.anon, right.anon)
    }

    /// Whether one may use the anon identity of the other: alike but for rights.
    #[must_use]
    pub fn shares_anon_with(&self, right: &Self) -> bool {
        self.continues_in(right) && (self.flags ^ right.flags) - VmFlags::RIGHTS == VmFlags::empty()
    }
}

/// An anon identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Anon {
    /// No other identity of the space has it.
    pub number: u32,
    /// Whether a fork made it: its pages may be an ancestor's too.
    pub inherited: bool,
}

/// Two identities agree if they are the same, or one is missing and no fork made the other.
fn anons_agree(a: Option<Anon>, b: Option<Anon>) -> bool {
    match (a, b) {
        (Some(one), None) | (None, Some(one)) => !one.inherited,
        _ => a == b,
    }
}

/// Whether the outer two of three may lie in one mapping: one has no identity, or both have the same.
fn one_at_most(a: Option<Anon>, b: Option<Anon>) -> bool {
    a.is_none() || b.is_none() || a == b
}

/// All mappings of an address space, by start.
#[derive(Clone, Default, Debug)]
pub struct Mappings(BTreeMap<u64, Mapping>);

impl Mappings {
    /// All of them, to be changed one by one.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Mapping> {
        self.0.values_mut()
    }

    /// Leaves those that are wanted.
    pub fn retain(&mut self, wanted: impl Fn(&Mapping) -> bool) {
        self.0.retain(|_, mapping| wanted(mapping));
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Upwards.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Mapping> {
        self.0.values()
    }

    /// Those that have a page of the range, upwards.
    pub fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = &Mapping> {
        let first = self.first_after(range.start).map_or(range.end, |first| first.start).min(range.end);
        self.0.range(first..range.end).map(|(_, mapping)| mapping)
    }

    /// The first mapping that ends after `addr`: it holds `addr` or lies above it.
    pub fn first_after(&self, addr: u64) -> Option<&Mapping> {
        self.at(addr).or_else(|| self.0.range(addr..).next().map(|(_, mapping)| mapping))
    }

    /// The mapping that holds `addr`.
    pub fn at(&self, addr: u64) -> Option<&Mapping> {
        self.0.range(..=addr).next_back().map(|(_, mapping)| mapping).filter(|mapping| addr < mapping.end)
    }

    /// The mapping that ends at `addr`.
    pub fn ending_at(&self, addr: u64) -> Option<&Mapping> {
        self.0.range(..addr).next_back().map(|(_, mapping)| mapping).filter(|mapping| mapping.end == addr)
    }

    /// The mapping that starts at `addr`.
    pub fn starting_at(&self, addr: u64) -> Option<&Mapping> {
        self.0.get(&addr)
    }

    /// Whether nothing is mapped there.
    pub fn is_free(&self, range: &Range<u64>) -> bool {
        self.first_after(range.start).is_none_or(|mapping| mapping.start >= range.end)
    }

    /// Adds a mapping where there is none.
    pub fn insert(&mut self, mapping: Mapping) {
        assert!(self.is_free(&(mapping.start..mapping.end)), "mappings never overlap");
        self.0.insert(mapping.start, mapping);
    }

    /// Takes out the mapping that starts at `start`.
    pub fn remove(&mut self, start: u64) -> Mapping {
        self.0.remove(&start).expect("a mapping starts there")
    }

    /// Gives the mapping that holds `addr` an anon identity.
    pub fn set_anon(&mut self, addr: u64, anon: Anon) {
        let start = self.at(addr).expect("a mapping holds the address").start;
        self.0.get_mut(&start).expect("it was found").anon = Some(anon);
    }

    /// Makes `addr` a boundary.
    pub fn split(&mut self, addr: u64) {
        let Some(whole) = self.at(addr).filter(|mapping| mapping.start < addr).cloned() else { return };
        self.0.insert(whole.start, whole.part(whole.start, addr));
        self.0.insert(addr, whole.part(addr, whole.end));
    }

    /// Adds `new`, as one with its neighbours where they agree; `right` too only if `both_sides`.
    pub fn insert_merged(&mut self, new: Mapping, sides: Sides) {
        let left = self.ending_at(new.start).filter(|left| left.merges_with(&new)).cloned();
        let right = self.starting_at(new.end).filter(|right| sides == Sides::Both && new.merges_with(right));
        let right = right
            .filter(|right| left.as_ref().is_none_or(|left| one_at_most(left.anon, right.anon)))
            .cloned();
        let mut merged = new;
        for part in [&left, &right].into_iter().flatten() {
            self.remove(part.start);
            merged.anon = merged.anon.or(part.anon);
        }
        if let Some(left) = left {
            (merged.start, merged.offset) = (left.start, left.offset);
        }
        merged.end = right.map_or(merged.end, |right| right.end);
        self.insert(merged);
    }

    /// Gives `[start, end)`, which lies in one mapping, other flags; see [`change`](Self::change).
    pub fn change_flags(&mut self, start: u64, end: u64, flags: VmFlags, most: usize) -> Result<(), Errno> {
        self.change(start, end, |part| Mapping { flags, ..part }, most)
    }

    /// Changes attributes of `[start, end)`, which lies in one mapping: as one with the neighbours where they
    /// agree, else as a mapping of its own. Refused if that takes more than `most` mappings; an end that was
    /// split off before stays so.
    pub fn change(
        &mut self,
        start: u64,
        end: u64,
        change: impl FnOnce(Mapping) -> Mapping,
        most: usize,
    ) -> Result<(), Errno> {
        let whole = self.at(start).expect("the range is mapped");
        let part = change(whole.part(start, end));
        let joins = self.ending_at(start).is_some_and(|left| left.merges_with(&part))
            || self.starting_at(end).is_some_and(|right| part.merges_with(right));
        for boundary in [start, end] {
            let cuts = self.at(boundary).is_some_and(|mapping| mapping.start < boundary);
            if cuts && !joins && self.len() >= most {
                return Err(Errno::ENOMEM);
            }
            self.split(boundary);
        }
        self.remove(start);
        self.insert_merged(part, Sides::Both);
        Ok(())
    }
}

/// Which neighbours a new mapping may join.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sides {
    /// Only the one below.
    Left,
    /// Both.
    Both,
}
