//! Random calls of two spaces on one object whose length changes, against a model of bytes.

use crate::frame::tests::Dice;
use crate::space::tests::world::object::{
    Object, Space, TestVm, at, fault, in_each, leaf, load, request, store,
};
use crate::space::tests::world::{PAGE, check_copies, copy_translations};
use crate::space::*;
use crate::units::{Access, VpnRange};
use std::vec::Vec;

/// Pages of the object at most, and of a window of the arena.
const PAGES: u64 = 12;
/// Windows of each space: two shared, two private, at several places of the object.
const WINDOWS: [(u64, Sharing, u64); 4] =
    [(0, Sharing::Shared, 0), (20, Sharing::Private, 0), (40, Sharing::Shared, 3), (60, Sharing::Private, 5)];

/// What the first byte of each page is: of the object, and of each page of the windows of both spaces that
/// has a copy.
struct Model {
    len: u64,
    object: Vec<u8>,
    copies: [Vec<Option<u8>>; 2],
}

impl Model {
    /// The page of the object that a page of the arena shows, and whether it shows it privately.
    fn place(page: u64) -> Option<(u64, bool)> {
        let window = WINDOWS.iter().find(|window| (window.0..window.0 + PAGES).contains(&page))?;
        Some((page - window.0 + window.2, window.1 == Sharing::Private))
    }

    fn byte(&self, space: usize, page: u64) -> Option<u8> {
        let (of, _) = Self::place(page)?;
        if of >= self.len {
            return None;
        }
        self.copies[space][page as usize].or(Some(self.object[of as usize]))
    }

    fn set_len(&mut self, len: u64) {
        let gone = len.min(self.len);
        self.object[gone as usize..].fill(0);
        for copies in &mut self.copies {
            for (page, copy) in copies.iter_mut().enumerate() {
                *copy = copy.filter(|_| Self::place(page as u64).is_some_and(|(of, _)| of < len));
            }
        }
        self.len = len;
    }
}

struct Run<'a, 'v> {
    object: &'a Object<'v>,
    spaces: [&'a Space<'v>; 2],
    model: Model,
}

impl Run<'_, '_> {
    fn step(&mut self, dice: &mut Dice) {
        let (nth, page) = (dice.roll(2) as usize, WINDOWS[dice.roll(4) as usize].0 + dice.roll(PAGES));
        let (space, spaces) = (self.spaces[nth], self.spaces);
        let hold = |id| spaces.into_iter().find(|space| space.id() == id);
        match dice.roll(12) {
            0 | 1 => {
                let len = dice.roll(PAGES + 6);
                let _reach = self.object.set_len_bytes(len * PAGE, hold).unwrap();
                self.model.set_len(len);
            }
            2 => {
                let (start, len) = (dice.roll(PAGES), 1 + dice.roll(6));
                let _reach = self.object.punch_hole(start * PAGE, len * PAGE, hold).unwrap();
                self.model.object[start as usize..(start + len) as usize].fill(0);
            }
            3 => {
                space.advise(at(page), PAGE, Advice::DontNeed).unwrap();
                self.model.copies[nth][page as usize] = None;
            }
            4..=7 => match self.model.byte(nth, page) {
                Some(byte) => assert_eq!(load(space, page), byte, "page {page}"),
                None => assert_eq!(fault(space, page, Access::Read), Err(FaultError::Beyond)),
            },
            _ => {
                let byte = 1 + dice.roll(250) as u8;
                let (of, is_private) = Model::place(page).unwrap();
                if self.model.byte(nth, page).is_none() {
                    assert_eq!(fault(space, page, Access::Write), Err(FaultError::Beyond));
                    return;
                }
                store(space, page, byte);
                if is_private {
                    self.model.copies[nth][page as usize] = Some(byte);
                } else {
                    self.model.object[of as usize] = byte;
                }
            }
        }
    }

    fn check(&self) {
        for (nth, space) in self.spaces.into_iter().enumerate() {
            for page in WINDOWS.iter().flat_map(|window| window.0..window.0 + PAGES) {
                let byte = self.model.byte(nth, page);
                assert!(byte.is_some() || leaf(space, page).is_none(), "page {page} is beyond the end");
                if let Some(byte) = byte {
                    assert_eq!(load(space, page), byte, "page {page}");
                }
            }
        }
    }
}

fn play(vm: &TestVm<'_>, space: &Space<'_>, seed: u64) {
    let (mut dice, object) = (Dice(seed), ObjectHandle::new(vm, PAGES * PAGE).unwrap());
    for (page, sharing, first) in WINDOWS {
        space.map(&request(page, PAGES, sharing).backed_by(object.at_page(first))).unwrap();
    }
    let child = space.fork().unwrap();
    let model = Model { len: PAGES, object: std::vec![0; 32], copies: [(); 2].map(|()| std::vec![None; 80]) };
    let mut run = Run { object: &object, spaces: [space, &child], model };
    for _ in 0..120 {
        let all = VpnRange::new(at(0).vpn(), at(80).vpn());
        run.spaces.iter().for_each(|space| copy_translations(space, all));
        run.step(&mut dice);
        for space in run.spaces {
            check_copies(space);
        }
    }
    run.check();
    space.unmap(at(0), 80 * PAGE).unwrap();
}

#[test]
fn random_lengths_holes_and_stores_leave_what_a_model_of_bytes_says() {
    in_each(|vm, space| (0..40).for_each(|seed| play(vm, &space, seed)));
}
