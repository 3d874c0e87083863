//! Random calls of two spaces on one object, against a model of its pages and of what each space maps.

use crate::machine::Format;
use crate::machine::testing::TestMachine;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{HUGE, at};
use crate::space::tests::world::shared_huge::{
    RW, Space, THP, counted, in_each, leaf, load, map, recount, store,
};
use crate::space::tests::world::{check_copies, copy_translations};
use crate::space::{Advice, MemlockLimit, Vm};
use crate::units::{Access, VpnRange};
use crate::vma::VmaFlags;
use std::collections::BTreeMap;

/// Pages of the object.
const PAGES: u64 = 3 * HUGE;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) % end
    }
}

/// What a space has of each page of the arena: whether it is mapped, and whether it may be written.
type Mapped = BTreeMap<u64, bool>;

fn step<F: Format>(random: &mut Random, space: &Space<'_, F>, mapped: &mut Mapped, object: &mut [u8]) {
    let unit = [1, 64, HUGE, HUGE][random.below(4) as usize];
    let start = random.below(PAGES / unit) * unit;
    let pages = ((1 + random.below(HUGE / unit)) * unit).min(PAGES - start);
    let (range, bytes) = (start..start + pages, pages * PAGE);
    let is_whole = range.clone().all(|page| mapped.contains_key(&page));
    let limit = MemlockLimit::new(u64::MAX);
    match random.below(12) {
        0 if mapped.len() as u64 > PAGES / 2 => {
            space.unmap(at(start), bytes).unwrap();
            mapped.retain(|page, _| !range.contains(page));
        }
        1 if is_whole => {
            let flags = [VmaFlags::READ, RW][random.below(2) as usize];
            space.protect(at(start), bytes, flags).unwrap();
            mapped.extend(range.map(|page| (page, flags == RW)));
        }
        2 | 3 if is_whole => space.advise(at(start), bytes, Advice::DontNeed).unwrap(),
        4 if is_whole => drop(space.pin_pages(at(start), Access::Read, &limit, [None]).unwrap()),
        5 if is_whole => {
            let mut byte = [1];
            space.copy_from(at(start), &mut byte).unwrap();
            assert_eq!(byte[0], object[start as usize]);
        }
        6 if mapped.get(&start) == Some(&true) => {
            space.copy_to(at(start), &[9]).unwrap();
            object[start as usize] = 9;
        }
        7 if is_whole => {
            (0..pages).step_by(61).for_each(|page| {
                assert_eq!(load(space, start + page), object[(start + page) as usize]);
            });
        }
        _ => {
            let byte = 1 + random.below(200) as u8;
            if let Some(page) = range.clone().find(|page| mapped.get(page) == Some(&true)) {
                store(space, page, byte);
                object[page as usize] = byte;
            }
        }
    }
}

#[test]
fn random_calls_of_two_spaces_leave_what_a_model_of_the_object_says() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        for seed in 0..12 {
            let mut random = Random(seed);
            let child = space.fork().unwrap();
            map(&child, 0, PAGES);
            let second = child.fork().unwrap();
            let mut object = std::vec![0; PAGES as usize];
            let all: Mapped = (0..PAGES).map(|page| (page, true)).collect();
            let mut mapped = [all.clone(), all];
            for nth in 0..100 {
                let which = random.below(2) as usize;
                let space = [&child, &second][which];
                copy_translations(space, VpnRange::new(at(0).vpn(), at(PAGES).vpn()));
                step(&mut random, space, &mut mapped[which], &mut object);
                check_copies(space);
                if nth % 5 == 4 {
                    recount(vm, &[&child, &second]);
                }
            }
            for (space, mapped) in [&child, &second].into_iter().zip(&mapped) {
                for page in 0..PAGES {
                    let held = leaf(space, page).is_some();
                    assert!(!held || mapped.contains_key(&page), "page {page} is not mapped");
                    if mapped.contains_key(&page) {
                        assert_eq!(load(space, page), object[page as usize], "page {page}, seed {seed}");
                    }
                }
            }
            recount(vm, &[&child, &second]);
        }
        let [given, _, mapped, _] = counted(vm, THP);
        assert!(given > 12 && mapped > given + 12, "{given} folios, mapped {mapped} times");
    }
    in_each!(10 * HUGE, Always, test);
}
