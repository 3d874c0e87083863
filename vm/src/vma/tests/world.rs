//! A list of mappings to which calls are applied through the decisions, as in an address space, without
//! pages.

use super::picture::{draw, parse};
use crate::units::{Vpn, VpnRange};
use crate::vma::{
    AnonId, Change, FlagAdvice, VmaAttributes, VmaFlags, change, check, cut, joins, merge, protect,
    reusable_anon, split,
};
use std::vec::Vec;

#[derive(Clone, Debug)]
pub struct World {
    pub list: Vec<VmaAttributes>,
    next_anon: u64,
}

/// The range has a hole: ENOMEM, after the pages before it were changed.
#[derive(Debug, PartialEq, Eq)]
pub struct Hole;

impl World {
    pub fn new(letters: &str, identities: &str) -> Self {
        let world = Self { list: parse(letters, identities), next_anon: 9 };
        world.check();
        world
    }

    pub fn check(&self) {
        assert_eq!(check(self.list.iter().copied()), Ok(()));
    }

    /// Checks that the world is drawn like this.
    #[track_caller]
    pub fn shows(&self, letters: &str, identities: &str) {
        self.check();
        let nr_pages = letters.chars().filter(|&c| c != '|').count() as u64;
        assert_eq!(draw(&self.list, nr_pages), (letters.into(), identities.into()));
    }

    /// Index of the first mapping that ends after `vpn`.
    fn at(&self, vpn: Vpn) -> usize {
        self.list.partition_point(|attributes| attributes.range.end <= vpn)
    }

    fn neighbours(&self, at: usize) -> (Option<VmaAttributes>, Option<VmaAttributes>) {
        (at.checked_sub(1).map(|before| self.list[before]), self.list.get(at + 1).copied())
    }

    pub fn unmap(&mut self, range: VpnRange) {
        self.list = self.list.iter().flat_map(|attributes| cut(attributes, range)).flatten().collect();
    }

    pub fn map(&mut self, new: VmaAttributes) {
        self.unmap(new.range);
        let at = self.at(new.range.start);
        let prev = at.checked_sub(1).map(|before| self.list[before]);
        let merged = merge(prev, new, self.list.get(at).copied());
        let removed = at - merged.absorbs_prev as usize..at + merged.absorbs_next as usize;
        self.list.splice(removed, [merged.attributes]);
        let at = self.at(new.range.start);
        let (prev, next) = self.neighbours(at);
        let joins_left = prev.is_some_and(|prev| joins(&prev, &self.list[at]));
        let joins_right = next.is_some_and(|next| joins(&self.list[at], &next));
        assert!(!joins_left || merged.absorbs_prev, "an equal neighbour is absorbed");
        assert!(!joins_right || merged.absorbs_next, "an equal neighbour is absorbed");
    }

    fn apply(&mut self, at: usize, change: Change) {
        if !change.removes_vma {
            return assert_eq!(change, Change::NOTHING);
        }
        let removed = at - change.removes_prev as usize..at + 1 + change.removes_next as usize;
        let covered =
            |list: &[VmaAttributes]| VpnRange::new(list[0].range.start, list.last().unwrap().range.end);
        let puts: Vec<VmaAttributes> = change.puts().collect();
        assert!(puts.windows(2).all(|two| two[0].range.end == two[1].range.start));
        assert_eq!(
            covered(&puts),
            covered(&self.list[removed.clone()]),
            "as many pages are added as removed"
        );
        assert_eq!((puts.len(), removed.len()), (change.nr_puts(), change.nr_removes()));
        self.list.splice(removed, puts);
    }

    /// Each mapping in the range in turn, until a hole.
    fn each(&mut self, range: VpnRange, one: impl Fn(&mut Self, usize, VpnRange)) -> Result<(), Hole> {
        let mut start = range.start;
        while start < range.end {
            let at = self.at(start);
            let Some(attributes) = self.list.get(at).filter(|attributes| attributes.range.contains(start))
            else {
                return Err(Hole);
            };
            let part = VpnRange::new(start, range.end.min(attributes.range.end));
            one(self, at, part);
            start = part.end;
        }
        Ok(())
    }

    pub fn protect(&mut self, range: VpnRange, access: VmaFlags) -> Result<(), Hole> {
        self.each(range, |world, at, part| {
            let (prev, next) = world.neighbours(at);
            let protection = protect(prev, &world.list[at], next, part, access).expect("all may be given");
            let wanted = VmaFlags::ACCESS & access;
            world.apply(at, protection.change);
            let holder = world.list[world.at(part.start)];
            assert!(holder.range.covers(part) && holder.flags & VmaFlags::ACCESS == wanted);
            assert!(protection.change.changed().is_none_or(|changed| changed == holder));
        })
    }

    pub fn advise(&mut self, range: VpnRange, advice: FlagAdvice) -> Result<(), Hole> {
        self.each(range, |world, at, part| {
            let (prev, next) = world.neighbours(at);
            let flags = world.list[at].flags.advised(advice);
            world.apply(at, change(prev, &world.list[at], next, part, flags));
        })
    }

    /// The first private copy in the mapping at `vpn`.
    pub fn write(&mut self, vpn: Vpn) {
        let at = self.at(vpn);
        let (prev, next) = self.neighbours(at);
        if self.list[at].anon.is_none() && !self.list[at].flags.contains(VmaFlags::SHARED) {
            let reused = reusable_anon(prev, &self.list[at], next);
            self.next_anon -= reused.is_none() as u64;
            self.list[at].anon = reused.unwrap_or(AnonId::new(self.next_anon + 1));
        }
    }

    /// A boundary inside a mapping, as a refused call leaves it.
    pub fn split(&mut self, at: Vpn) {
        let which = self.at(at);
        if self.list.get(which).is_some_and(|attributes| attributes.range.start < at) {
            let (below, above) = split(&self.list[which], at);
            self.list.splice(which..=which, [below, above]);
        }
    }
}
