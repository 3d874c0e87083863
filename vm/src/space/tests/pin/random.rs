//! Random calls and forks beside pins.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::base::{READ_WRITE, frame, load, map, page, store, with_space};
use crate::space::tests::world::pins::{Limit, Pins, assert_pinned, pfns, pin};
use crate::space::{Advice, Fault};
use crate::units::Access;
use crate::vma::VmaFlags;
use std::vec::Vec;

#[test]
fn random_calls_and_forks_leave_each_pinned_page_its_frame() {
    let steps = if cfg!(debug_assertions) { 600 } else { 6000 };
    with_space(|vm, first| {
        let limit = Limit::new(u64::MAX);
        let mut spaces = Vec::from([first]);
        map(&spaces[0], 0, 8);
        // Pins of pages that stay mapped: the number of the space, the page, and the pin.
        let mut pins: Vec<(usize, u64, Pins<'_, '_>)> = Vec::new();
        let mut seed = 0x1234_5678_9abc_def1_u64;
        let mut random = |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        for _ in 0..steps {
            let at = random(spaces.len() as u64) as usize;
            let (space, nr) = (&spaces[at], random(8));
            match random(10) {
                0 if spaces.len() < 4 => {
                    let child = space.fork().unwrap();
                    spaces.push(child);
                }
                1 if spaces.len() > 1 => {
                    pins.retain(|(owner, ..)| *owner != spaces.len() - 1);
                    spaces.pop();
                }
                2 => {
                    pins.retain(|(owner, pinned, _)| (*owner, *pinned) != (at, nr));
                    space.advise(page(nr), PAGE, Advice::DontNeed).unwrap();
                }
                3 => {
                    let flags = if random(2) == 0 { VmaFlags::READ } else { READ_WRITE };
                    space.protect(page(nr), PAGE, flags).unwrap();
                }
                4 if !pins.is_empty() => drop(pins.swap_remove(random(pins.len() as u64) as usize)),
                5 | 6 => {
                    let access = if random(2) == 0 { Access::Read } else { Access::Write };
                    if let Ok(pinned) = pin(space, page(nr), 1, access, &limit) {
                        pins.push((at, nr, pinned));
                    }
                }
                7 => {
                    load(space, page(nr));
                }
                _ if space.inspect().vma_at(page(nr)).unwrap().flags.contains(VmaFlags::WRITE) => {
                    store(space, page(nr), random(256) as u8);
                }
                _ => {
                    let _refused = space.fault(Fault { addr: page(nr), access: Access::Write });
                }
            }
            for (owner, nr, pinned) in &pins {
                assert_eq!(frame(&spaces[*owner], page(*nr)), pfns(pinned)[0], "{owner} {nr}");
                assert!(vm.memory().meta(pfns(pinned)[0]).unwrap().state().is_exclusive());
            }
        }
        assert_pinned(vm, &pins.iter().map(|(.., pins)| pins).collect::<Vec<_>>());
    });
}
