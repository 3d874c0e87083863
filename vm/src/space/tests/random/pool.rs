//! Random calls of a parent and a child, against a plain model of the pool.

use crate::machine::Entry;
use crate::space::tests::world::pool::{
    BYTES, RW, TAKEN, TestSpace, TestVm, at, counts, entry, fault, peek, request, store, take_back, with_pool,
};
use crate::space::tests::world::{check_copies, copy_translations};
use crate::space::{Advice, Error, FaultError, MapBacking, MapRequest};
use crate::table::SlotMarker;
use crate::units::{Access, PageSize, VpnRange};
use crate::vma::VmaFlags;
use std::collections::BTreeSet;
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
    /// A page of the pool, by a number of its own, which other spaces may have too.
    Held {
        folio: usize,
        reserves: bool,
    },
    Lost,
}

/// The pages of the spaces, and what each page of the pool that was ever used holds.
#[derive(Default)]
struct Model {
    spaces: Vec<[Page; ARENA as usize]>,
    bytes: Vec<u8>,
}

impl Model {
    /// A page of the pool that is free.
    fn take(&mut self, byte: u8) -> usize {
        self.bytes.push(byte);
        self.bytes.len() - 1
    }

    /// Number of spaces that have it.
    fn sharers(&self, of: usize) -> usize {
        let has = |page: &&Page| matches!(page, Page::Held { folio, .. } if *folio == of);
        self.spaces.iter().flatten().filter(has).count()
    }
}

/// Free pages, and those set aside.
fn pool_of(model: &Model) -> (u64, u64) {
    let pages = || model.spaces.iter().flatten();
    let folio = |page: &Page| if let Page::Held { folio, .. } = page { Some(*folio) } else { None };
    let held = pages().filter_map(folio).collect::<BTreeSet<_>>().len() as u64;
    let is_set_aside = |page: &&Page| matches!(page, Page::Untouched { is_set_aside: true, .. });
    (POOL - held, pages().filter(is_set_aside).count() as u64)
}

fn compare(vm: &TestVm<'_>, spaces: &[TestSpace<'_>], model: &Model, what: &str) {
    let all: Vec<_> = spaces.iter().collect();
    assert_eq!(counts(vm, &all, ARENA), pool_of(model), "after {what}");
    for (space, pages) in spaces.iter().zip(&model.spaces) {
        for (nr, page) in pages.iter().enumerate() {
            let expected = match page {
                Page::Hole => Entry::Absent,
                Page::Untouched { is_set_aside: true, .. } => SlotMarker::HugetlbReserved.entry(),
                Page::Untouched { .. } => Entry::Absent,
                Page::Lost => TAKEN,
                Page::Held { folio, .. } => {
                    let byte = model.bytes[*folio];
                    assert_eq!(peek(space, nr as u64), Some(byte), "page {nr} after {what}");
                    continue;
                }
            };
            assert_eq!(entry(space, nr as u64), expected, "page {nr} after {what}");
        }
        space.inspect().check_index().unwrap();
    }
}

/// Drops the contents of a page. Where one was set aside for it, that page is again if no other space has it,
/// else another one that is available.
fn drop_page(model: &mut Model, who: usize, nr: usize) {
    let Page::Held { folio, reserves } = model.spaces[who][nr] else { return };
    let (free, set_aside) = pool_of(model);
    let is_set_aside = reserves && (model.sharers(folio) == 1 || free > set_aside);
    model.spaces[who][nr] = Page::Untouched { is_set_aside, reserves };
}

/// A child has the pages of its parent, and none set aside.
fn forked(model: &Model, parent: usize) -> [Page; ARENA as usize] {
    model.spaces[parent].map(|page| match page {
        Page::Held { folio, .. } => Page::Held { folio, reserves: false },
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
            model.spaces[who][range.clone()].fill(Page::Hole);
            let (free, set_aside) = pool_of(model);
            let fits = !reserves || free - set_aside >= pages;
            let flags = if reserves { RW } else { RW | VmaFlags::NORESERVE };
            let request = MapRequest { flags, ..request(start, pages) };
            let expected = if fits { Ok(at(start)) } else { Err(Error::NoMemory) };
            assert_eq!(spaces[who].map(&request.backed_by(MapBacking::Hugetlb(PageSize::Huge))), expected);
            if fits {
                model.spaces[who][range].fill(Page::Untouched { is_set_aside: reserves, reserves });
            }
            "map"
        }
        2 => {
            spaces[who].unmap(at(start), pages * BYTES).unwrap();
            model.spaces[who][range].fill(Page::Hole);
            "unmap"
        }
        3 => {
            let has_holes = model.spaces[who][range.clone()].contains(&Page::Hole);
            let expected = if has_holes { Err(Error::NoMemory) } else { Ok(()) };
            assert_eq!(spaces[who].advise(at(start), pages * BYTES, Advice::DontNeed), expected);
            range.for_each(|nr| drop_page(model, who, nr));
            "discard"
        }
        4 if spaces.len() < 3 => {
            let child = spaces[who].fork().unwrap();
            model.spaces.push(forked(model, who));
            spaces.push(child);
            "fork"
        }
        5 if spaces.len() > 1 => {
            drop((spaces.swap_remove(who), model.spaces.swap_remove(who)));
            "exit"
        }
        6 => {
            let has_holes = model.spaces[who][range.clone()].contains(&Page::Hole);
            let result = spaces[who].protect(at(start), pages * BYTES, VmaFlags::READ);
            assert_eq!(result.is_err(), has_holes);
            let _has_holes = spaces[who].protect(at(start), pages * BYTES, RW);
            "protect"
        }
        _ => touch(random, spaces, model, (who, start as usize)),
    }
}

fn touch(
    random: &mut Random,
    spaces: &[TestSpace<'_>],
    model: &mut Model,
    (who, nr): (usize, usize),
) -> &'static str {
    let (free, set_aside) = pool_of(model);
    let (byte, is_available) = (1 + random.below(200) as u8, free > set_aside);
    let (space, page) = (&spaces[who], nr as u64);
    let expected = match model.spaces[who][nr] {
        Page::Hole => Err(FaultError::NotMapped),
        Page::Lost => Err(FaultError::HugetlbEmpty),
        Page::Untouched { is_set_aside: false, .. } if !is_available => Err(FaultError::HugetlbEmpty),
        Page::Untouched { reserves, .. } => Ok((model.take(byte), reserves)),
        Page::Held { folio, reserves } if model.sharers(folio) == 1 => Ok((folio, reserves)),
        Page::Held { reserves, .. } if is_available => Ok((model.take(byte), reserves)),
        Page::Held { folio, reserves } => {
            assert_eq!(fault(space, page, Access::Write), Err(FaultError::HugetlbEmpty));
            let all: Vec<_> = spaces.iter().collect();
            assert_eq!(take_back(space, page, &all), Ok(reserves));
            if !reserves {
                return "a store that finds the pool empty";
            }
            for (other, pages) in model.spaces.iter_mut().enumerate() {
                let has_it = matches!(pages[nr], Page::Held { folio: theirs, .. } if theirs == folio);
                if other != who && has_it {
                    pages[nr] = Page::Lost;
                }
            }
            Ok((folio, reserves))
        }
    };
    match expected {
        Err(error) => {
            let access = if random.below(2) == 0 { Access::Read } else { Access::Write };
            assert_eq!(fault(space, page, access), Err(error));
        }
        Ok((folio, reserves)) => {
            store(space, page, byte);
            model.bytes[folio] = byte;
            model.spaces[who][nr] = Page::Held { folio, reserves };
        }
    }
    "touch"
}

#[test]
fn random_calls_agree_with_the_model() {
    for seed in 0..30 {
        with_pool(POOL, |vm, space| {
            let mut spaces = std::vec![space];
            let mut model = Model::default();
            model.spaces.push([Page::Hole; ARENA as usize]);
            let mut random = Random(seed);
            let arena = VpnRange::new(at(0).vpn(), at(ARENA).vpn());
            for nr in 0..120 {
                spaces.iter().for_each(|space| copy_translations(space, arena));
                let what = step(&mut random, &mut spaces, &mut model);
                assert!(spaces.iter().map(check_copies).sum::<usize>() <= 3 * 3 * ARENA as usize);
                compare(vm, &spaces, &model, &std::format!("{what}, step {nr} of seed {seed}"));
            }
        });
    }
}
