//! Random calls of a parent and a child, against a plain model of the pool.

use super::*;
use crate::space::Advice;
use std::vec::Vec;

/// Huge pages of the arena, and of the pool: fewer, so that it runs dry.
const ARENA: u64 = 8;
const POOL: u64 = 9;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) % end
    }
}

/// A huge page of a space, as the model has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Hole,
    /// Nothing yet; whether a page is set aside, and whether one would be again.
    Untouched {
        is_set_aside: bool,
        reserves: bool,
    },
    Held {
        byte: u8,
        reserves: bool,
    },
    Lost,
}

/// The pages of the spaces.
type Model = Vec<[Page; ARENA as usize]>;

/// Free pages, and those set aside.
fn pool_of(model: &Model) -> (u64, u64) {
    let pages = || model.iter().flatten();
    let held = pages().filter(|page| matches!(page, Page::Held { .. })).count() as u64;
    let is_set_aside = |page: &&Page| matches!(page, Page::Untouched { is_set_aside: true, .. });
    (POOL - held, pages().filter(is_set_aside).count() as u64)
}

fn compare(vm: &TestVm<'_>, spaces: &[TestSpace<'_>], model: &Model, what: &str) {
    let all: Vec<_> = spaces.iter().collect();
    assert_eq!(counts(vm, &all, ARENA), pool_of(model), "after {what}");
    for (space, pages) in spaces.iter().zip(model) {
        for (nr, page) in pages.iter().enumerate() {
            let expected = match page {
                Page::Hole => Entry::Absent,
                Page::Untouched { is_set_aside: true, .. } => Entry::Marker(Marker::Reserved),
                Page::Untouched { .. } => Entry::Absent,
                Page::Lost => Entry::Marker(Marker::Lost),
                Page::Held { byte, .. } => {
                    assert_eq!(peek(space, nr as u64), Some(*byte), "page {nr} after {what}");
                    continue;
                }
            };
            assert_eq!(entry(space, nr as u64), expected, "page {nr} after {what}");
        }
        space.check_index().unwrap();
    }
}

/// What a page is once its contents are dropped.
fn dropped(page: Page) -> Page {
    match page {
        Page::Held { reserves, .. } => Page::Untouched { is_set_aside: reserves, reserves },
        other => other,
    }
}

/// The child's pages after a fork: of what is available it gets copies, in order.
fn forked(model: &Model, parent: usize) -> [Page; ARENA as usize] {
    let (free, set_aside) = pool_of(model);
    let mut available = free - set_aside;
    model[parent].map(|page| match page {
        Page::Held { byte, .. } if available > 0 => {
            available -= 1;
            Page::Held { byte, reserves: false }
        }
        Page::Held { .. } => Page::Lost,
        Page::Untouched { .. } => Page::Untouched { is_set_aside: false, reserves: false },
        other => other,
    })
}

fn step<'v>(random: &mut Random, spaces: &mut Vec<TestSpace<'v>>, model: &mut Model) -> &'static str {
    let who = random.below(spaces.len() as u64) as usize;
    let start = random.below(ARENA);
    let pages = 1 + random.below((ARENA - start).min(4));
    let range = start as usize..(start + pages) as usize;
    match random.below(10) {
        0 | 1 => {
            let reserves = random.below(2) == 0;
            model[who][range.clone()].fill(Page::Hole);
            let (free, set_aside) = pool_of(model);
            let fits = !reserves || free - set_aside >= pages;
            let flags = if reserves { RW } else { RW | VmaFlags::NORESERVE };
            let request = MapRequest { flags, ..request(start, pages) };
            let expected = if fits { Ok(at(start)) } else { Err(Error::NoMemory) };
            assert_eq!(spaces[who].map_huge_pool(&request, PageSize::Huge), expected);
            if fits {
                model[who][range].fill(Page::Untouched { is_set_aside: reserves, reserves });
            }
            "map"
        }
        2 => {
            spaces[who].unmap(at(start), pages * BYTES).unwrap();
            model[who][range].fill(Page::Hole);
            "unmap"
        }
        3 => {
            let has_holes = model[who][range.clone()].contains(&Page::Hole);
            let expected = if has_holes { Err(Error::NoMemory) } else { Ok(()) };
            assert_eq!(spaces[who].advise(at(start), pages * BYTES, Advice::DontNeed), expected);
            model[who][range].iter_mut().for_each(|page| *page = dropped(*page));
            "discard"
        }
        4 if spaces.len() < 3 => {
            let child = spaces[who].fork().unwrap();
            model.push(forked(model, who));
            spaces.push(child);
            "fork"
        }
        5 if spaces.len() > 1 => {
            drop((spaces.swap_remove(who), model.swap_remove(who)));
            "exit"
        }
        6 => {
            let has_holes = model[who][range.clone()].contains(&Page::Hole);
            let result = spaces[who].protect(at(start), pages * BYTES, VmaFlags::READ);
            assert_eq!(result.is_err(), has_holes);
            let _has_holes = spaces[who].protect(at(start), pages * BYTES, RW);
            "protect"
        }
        _ => touch(random, &spaces[who], model, (who, start)),
    }
}

fn touch(
    random: &mut Random,
    space: &TestSpace<'_>,
    model: &mut Model,
    (who, page): (usize, u64),
) -> &'static str {
    let (free, set_aside) = pool_of(model);
    let byte = 1 + random.below(200) as u8;
    let found = &mut model[who][page as usize];
    let expected = match *found {
        Page::Hole => Err(FaultError::NotMapped),
        Page::Lost => Err(FaultError::PoolEmpty),
        Page::Untouched { is_set_aside: false, .. } if free == set_aside => Err(FaultError::PoolEmpty),
        Page::Untouched { reserves, .. } | Page::Held { reserves, .. } => Ok(reserves),
    };
    match expected {
        Err(error) => assert_eq!(fault(space, page, Access::Read), Err(error)),
        Ok(reserves) => {
            store(space, page, byte);
            *found = Page::Held { byte, reserves };
        }
    }
    "touch"
}

#[test]
fn random_calls_agree_with_the_model() {
    for seed in 0..30 {
        with_pool(POOL, |vm, space| {
            let mut spaces = std::vec![space];
            let mut model: Model = std::vec![[Page::Hole; ARENA as usize]];
            let mut random = Random(seed);
            for nr in 0..120 {
                let what = step(&mut random, &mut spaces, &mut model);
                compare(vm, &spaces, &model, &std::format!("{what}, step {nr} of seed {seed}"));
            }
        });
    }
}
