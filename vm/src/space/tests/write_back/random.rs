//! Random stores, reads, writes, lengths and syncs of one file in two spaces, against a model of its bytes.

use crate::frame::tests::Dice;
use crate::object::PageAnswer;
use crate::space::tests::world::disk::{Disk, File, open, with_disk};
use crate::space::tests::world::object::{Space, TestVm, at, leaf, load, request, store};
use crate::space::tests::world::{PAGE, check_copies, copy_translations};
use crate::space::*;
use crate::units::{Rights, VpnRange};
use std::vec::Vec;

const PAGES: u64 = 10;
/// Windows of the arena on the file: all of it, and from page 4 on.
const WINDOWS: [(u64, u64); 2] = [(0, 0), (30, 4)];

struct Run<'a, 'v> {
    disk: &'a Disk,
    file: &'a File<'v>,
    spaces: [&'a Space<'v>; 2],
    /// The first byte of each page.
    model: Vec<u8>,
    len: u64,
}

impl Run<'_, '_> {
    fn step(&mut self, dice: &mut Dice) {
        let space = self.spaces[dice.roll(2) as usize];
        let (window, first) = WINDOWS[dice.roll(2) as usize];
        let page = first + dice.roll(PAGES - first);
        let (at_page, spaces) = (window + page - first, self.spaces);
        let hold = |id| spaces.into_iter().find(|space| space.id() == id);
        let byte = 1 + dice.roll(250) as u8;
        match dice.roll(12) {
            0 => {
                self.len = dice.roll(PAGES + 1);
                let _reach = self.file.set_len_bytes(self.len * PAGE, hold).unwrap();
                self.model[self.len as usize..].fill(0);
                (self.len..PAGES).for_each(|page| self.disk.put(page, 0));
            }
            1 => {
                self.file.write_at(page * PAGE, &[byte]).unwrap();
                self.model[page as usize] = byte;
                self.len = self.len.max(page + 1);
                // The rest of the page, where it has become longer.
                let _reach = self.file.set_len_bytes(self.len * PAGE, hold).unwrap();
            }
            2 => {
                let mut read = [0xee];
                let len = usize::from(page < self.len);
                assert_eq!(self.file.read_at(page * PAGE, &mut read), Ok(len));
                assert!(len == 0 || read[0] == self.model[page as usize]);
            }
            3 => drop(space.advise(at(at_page), PAGE, Advice::DontNeed)),
            4 | 5 => {
                if dice.roll(3) == 0 {
                    self.disk.answer(page, &[PageAnswer::Error]);
                }
                let written = self.file.write_back(0, u64::MAX, hold).unwrap();
                self.disk.answer(page, &[]);
                if written.failed == 0 {
                    self.check_disk();
                }
            }
            6 | 7 if page < self.len => assert_eq!(load(space, at_page), self.model[page as usize]),
            _ if page < self.len => {
                store(space, at_page, byte);
                self.model[page as usize] = byte;
            }
            _ => {}
        }
        self.check_entries();
    }

    /// An entry lets stores through only where the page is dirty: where no page is, none does.
    fn check_entries(&self) {
        for space in self.spaces {
            let reading = space.vm().read();
            let object = space.vm().object(self.file.id(), &reading).unwrap();
            for (window, first) in WINDOWS {
                for page in first..PAGES {
                    let entry = leaf(space, window + page - first);
                    if entry.is_some_and(|(_, rights)| rights.contains(Rights::WRITE)) {
                        assert!(object.is_dirty(space.vm().memory(), page, &reading), "page {page}");
                    }
                }
            }
        }
    }

    fn check_disk(&self) {
        for page in 0..self.len {
            assert_eq!(self.disk.byte(page), self.model[page as usize], "page {page}");
        }
    }
}

fn play(vm: &TestVm<'_>, space: &Space<'_>, disk: &Disk, seed: u64) {
    let (mut dice, file) = (Dice(seed), open(vm));
    (0..PAGES).for_each(|page| disk.put(page, page as u8));
    for (window, first) in WINDOWS {
        let request = request(window, PAGES - first, Sharing::Shared);
        space.map(&request.backed_by(file.at_page(first))).unwrap();
    }
    let child = space.fork().unwrap();
    let model = (0..PAGES as u8).collect();
    let mut run = Run { disk, file: &file, spaces: [space, &child], model, len: PAGES };
    for _ in 0..150 {
        let all = VpnRange::new(at(0).vpn(), at(50).vpn());
        run.spaces.iter().for_each(|space| copy_translations(space, all));
        run.step(&mut dice);
        for space in run.spaces {
            check_copies(space);
        }
    }
    let spaces = run.spaces;
    let written = file.write_back(0, u64::MAX, |id| spaces.into_iter().find(|space| space.id() == id));
    assert_eq!(written.unwrap().failed, 0);
    run.check_disk();
    space.unmap(at(0), 50 * PAGE).unwrap();
}

#[test]
fn random_calls_leave_on_the_disk_what_a_model_of_bytes_says() {
    with_disk(PAGES, |vm, space, disk| (0..30).for_each(|seed| play(vm, &space, disk, seed)));
}
