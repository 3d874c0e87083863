//! Random calls on an arena of several huge pages, against a model of pages.

use crate::machine::testing::played;
use crate::space::tests::world::huge::{
    HUGE, TestSpace, at, fault, leaf, map, pages, peek, store, with_policies,
};
use crate::space::tests::world::pins::{Limit, slots};
use crate::space::tests::world::{PAGE, check_copies, copy_translations};
use crate::space::{Advice, Counter, Error};
use crate::units::{Access, Rights};
use crate::vma::{FlagAdvice, HugePolicy, VmaFlags, ZeroPagePolicy};
use std::collections::BTreeMap;

/// Pages of the arena.
const ARENA: u64 = 3 * HUGE;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) % end
    }
}

/// Each mapped page: what was stored there last, and whether it may be written.
type Model = BTreeMap<u64, (u8, bool)>;

/// A page that was stored to holds that; others are absent or zero. A huge leaf allows what all of its pages
/// may, and no stores to a folio that is not exclusive.
fn compare(space: &TestSpace<'_>, model: &Model, what: &str) {
    for page in 0..ARENA {
        let (held, modelled) = (peek(space, page), model.get(&page).copied());
        let is_right = match (held, modelled) {
            (None, Some((byte, _))) => byte == 0,
            (held, Some((byte, _))) => held == Some(byte),
            (held, None) => held.is_none(),
        };
        assert!(is_right, "page {page} holds {held:?} after {what}, the model says {modelled:?}");
        if let (Some((leaf, covers)), Some((_, may_write))) = (leaf(space, page), modelled) {
            assert!(may_write || !leaf.rights.contains(Rights::WRITE), "page {page} after {what}");
            let state = || space.vm().memory().meta(leaf.pfn).unwrap().state();
            let is_zeros = covers > 1 && !leaf.owned();
            assert!(covers == 1 || is_zeros || state().refcount() == 1);
            let is_written = leaf.rights.contains(Rights::WRITE);
            assert!(!(is_zeros && is_written), "page {page} of zeros after {what}");
            assert!(!is_written || state().is_exclusive(), "page {page} after {what}");
        }
    }
    space.inspect().check_index().unwrap();
    space.vm().memory().check().unwrap();
}

fn set(model: &mut Model, range: core::ops::Range<u64>, change: impl Fn(&mut (u8, bool))) {
    model.range_mut(range).for_each(|(_, page)| change(page));
}

/// Does one random operation to the space and the model. Returns its name.
fn step(random: &mut Random, space: &TestSpace<'_>, model: &mut Model) -> &'static str {
    let unit = [1, 64, HUGE, HUGE][random.below(4) as usize];
    let start = random.below(ARENA / unit) * unit;
    let pages = ((1 + random.below(2 * HUGE / unit)) * unit).min(ARENA - start);
    let (range, bytes) = (start..start + pages, pages * PAGE);
    let hole = range.clone().find(|page| !model.contains_key(page));
    let holes = if hole.is_some() { Err(Error::NoMemory) } else { Ok(()) };
    match random.below(16) {
        0 | 1 => {
            map(space, start, pages);
            model.extend(range.map(|page| (page, (0, true))));
            "map"
        }
        2 => {
            space.unmap(at(start), bytes).unwrap();
            model.retain(|page, _| !range.contains(page));
            "unmap"
        }
        3 => {
            let flags = [VmaFlags::READ, VmaFlags::READ | VmaFlags::WRITE][random.below(2) as usize];
            assert_eq!(space.protect(at(start), bytes, flags), holes);
            let changed = start..hole.unwrap_or(range.end);
            set(model, changed, |page| page.1 = flags.contains(VmaFlags::WRITE));
            "protect"
        }
        4 => {
            assert_eq!(space.advise(at(start), bytes, Advice::DontNeed), holes);
            set(model, range, |page| page.0 = 0);
            "discard"
        }
        5 => {
            assert_eq!(space.advise(at(start), bytes, Advice::Free), holes);
            "free"
        }
        6 => {
            let advice = [FlagAdvice::HugePage, FlagAdvice::NoHugePage][random.below(2) as usize];
            assert_eq!(space.advise(at(start), bytes, Advice::Flag(advice)), holes);
            "advice"
        }
        7 if hole.is_none() => {
            fault(space, start, Access::Read);
            "load"
        }
        8 if hole.is_none() => {
            let mut byte = [1];
            space.copy_from(at(start), &mut byte).unwrap();
            assert_eq!(byte[0], model[&start].0);
            "load by another"
        }
        9 if hole.is_none() => {
            space.copy_to_forced(at(start), &[7]).unwrap();
            set(model, start..start + 1, |page| page.0 = 7);
            "store by a debugger"
        }
        10 if hole.is_none() => {
            let limit = Limit::new(9);
            drop(space.pin_pages(at(start), Access::Read, &limit, slots(1)).unwrap());
            "pin"
        }
        _ => {
            let byte = 1 + random.below(200) as u8;
            let writable = range.clone().find(|page| model.get(page).is_some_and(|page| page.1));
            if let Some(page) = writable {
                store(space, page, byte);
                set(model, page..page + 1, |page| page.0 = byte);
            }
            "store"
        }
    }
}

#[test]
fn random_calls_leave_what_a_model_of_pages_says_also_in_a_child() {
    let (mut installed, mut split) = (0, 0);
    for seed in 0..played(8, 24) {
        let policy = if seed % 4 == 0 { HugePolicy::Madvise } else { HugePolicy::Always };
        let zeros = [ZeroPagePolicy::Small, ZeroPagePolicy::Huge, ZeroPagePolicy::Virtual];
        with_policies(10 * HUGE, (policy, zeros[seed as usize % 3]), |vm, space| {
            let (mut random, mut model) = (Random(seed), Model::new());
            for nth in 0..120 {
                copy_translations(&space, pages(0, ARENA));
                let what = step(&mut random, &space, &mut model);
                compare(&space, &model, what);
                check_copies(&space);
                if nth % 30 == 29 {
                    copy_translations(&space, pages(0, ARENA));
                    let (child, mut own) = (space.fork().unwrap(), model.clone());
                    check_copies(&space);
                    compare(&child, &own, "fork");
                    for _ in 0..8 {
                        step(&mut random, &child, &mut own);
                        compare(&child, &own, "the child's calls");
                        step(&mut random, &space, &mut model);
                        compare(&space, &model, "calls beside the child");
                    }
                    compare(&child, &own, "the parent's calls");
                }
            }
            installed += vm.totals().get(Counter::ThpFaultAlloc);
            split += vm.totals().get(Counter::ThpSplitPmd);
        });
    }
    assert!(installed > 13 && split > 6, "{installed} huge pages, {split} of them split");
}
