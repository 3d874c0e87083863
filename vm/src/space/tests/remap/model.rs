//! Random moves, stores, forks, discards and unmaps, against a plain model of pages.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::base::{TABLE, TestSpace, leaf, load, map, page, store, with_space};
use crate::space::tests::world::remap::{FIXED, LEAVE, remap};
use crate::space::tests::world::rmap::{entries, found};
use crate::space::{Advice, RmapFound};
use std::vec;
use std::vec::Vec;

/// Pages of the arena: they end in a third table.
const ARENA: u64 = 2 * TABLE + 40;
/// Pages that are used: at the borders of tables.
const SPOTS: [u64; 4] = [0, TABLE - 6, TABLE + 30, 2 * TABLE - 5];

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn page(&mut self) -> u64 {
        SPOTS[self.below(4) as usize] + self.below(12)
    }
}

/// What each page of a space holds; `None` where nothing is mapped.
type Model = Vec<Option<u8>>;

fn check(space: &TestSpace<'_>, model: &Model) {
    for (nr, byte) in (0..).zip(model) {
        match byte {
            None => assert!(leaf(space, page(nr)).is_none(), "page {nr} is not mapped"),
            Some(byte) if leaf(space, page(nr)).is_some() => {
                assert_eq!(load(space, page(nr)), *byte, "page {nr}")
            }
            Some(byte) => assert_eq!(*byte, 0, "page {nr} has lost what was stored"),
        }
    }
}

/// The reverse map finds exactly the entries of each frame, whatever has moved.
fn check_rmap(vm: &crate::space::tests::world::base::TestVm<'_>, spaces: &[TestSpace<'_>]) {
    let known: Vec<&TestSpace<'_>> = spaces.iter().collect();
    for (pfn, due) in entries(spaces, ARENA) {
        let reference = vm.memory().try_get(pfn).unwrap();
        let (found, seen) = found(vm, &reference, &known);
        assert_eq!((found, seen), (Ok(RmapFound::All(due.len() as u32)), due));
    }
}

fn step(random: &mut Random, space: &TestSpace<'_>, model: &mut Model) {
    let (from, to, len) = (random.page(), random.page(), 1 + random.below(14));
    let (old, new) = (from as usize..(from + len) as usize, to as usize..(to + len) as usize);
    match random.below(8) {
        0..3 => {
            let leaves = random.below(3) == 0;
            let flags = if leaves { FIXED | LEAVE } else { FIXED };
            let moved = remap(space, (page(from), len * PAGE), (page(to), len * PAGE), flags);
            let overlaps = old.start < new.end && new.start < old.end;
            let is_mapped = model[old.start].is_some();
            assert_eq!(moved.is_ok(), !overlaps && is_mapped, "{moved:?}");
            if moved.is_ok() {
                for (at, to) in old.zip(new) {
                    if let Some(byte) = model[at] {
                        model[to] = Some(byte);
                        model[at] = leaves.then_some(0);
                    }
                }
            }
        }
        3 => {
            map(space, from, len);
            model[old].fill(Some(0));
        }
        4 => {
            space.unmap(page(from), len * PAGE).unwrap();
            model[old].fill(None);
        }
        5 if model[old.clone()].iter().all(Option::is_some) => {
            space.advise(page(from), len * PAGE, Advice::DontNeed).unwrap();
            model[old].fill(Some(0));
        }
        _ => {
            if model[old.start].is_some() {
                let byte = 1 + random.below(250) as u8;
                store(space, page(from), byte);
                model[old.start] = Some(byte);
            }
        }
    }
}

#[test]
fn random_moves_of_several_spaces_agree_with_a_model() {
    let steps = if cfg!(debug_assertions) { 400 } else { 3000 };
    for seed in [0x1234_5678_9abc_def1, 0x0fed_cba9_8765_4321] {
        with_space(|vm, first| {
            let mut random = Random(seed);
            let mut spaces = Vec::from([(first, vec![None; ARENA as usize])]);
            for nth in 0..steps {
                let at = random.below(spaces.len() as u64) as usize;
                match random.below(40) {
                    0 if spaces.len() < 4 => {
                        let child = (spaces[at].0.fork().unwrap(), spaces[at].1.clone());
                        spaces.push(child);
                    }
                    1 if spaces.len() > 1 => drop(spaces.swap_remove(at)),
                    _ => {
                        let (space, model) = &mut spaces[at];
                        step(&mut random, space, model);
                    }
                }
                if nth % 20 == 0 || nth + 1 == steps {
                    spaces.iter().for_each(|(space, model)| check(space, model));
                    let (only, models): (Vec<_>, Vec<_>) = spaces.into_iter().unzip();
                    check_rmap(vm, &only);
                    vm.memory().check().unwrap();
                    only.iter().for_each(|space| assert!(space.inspect().check_index().is_ok()));
                    spaces = only.into_iter().zip(models).collect();
                }
            }
        });
    }
}
