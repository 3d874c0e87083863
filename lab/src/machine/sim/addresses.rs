//! Host addresses as numbers of lines that do not depend on where the host has put memory.
//!
//! Memory of the machine is numbered by its physical addresses. All other memory (spaces, spin locks, what a
//! scenario owns) is numbered page by page as it is first touched: the order of that is the run's own.

use interleaf::units::PAGE_SIZE;
use std::collections::BTreeMap;
use std::ops::Range;

/// Lines of a page.
pub(super) const LINES_OF_PAGE: u32 = 64;
/// Bits of an address within a line.
const LINE_SHIFT: u32 = 6;
/// Pages outside of the machine that are found without a search.
const RECENT: usize = 256;

/// The numbers of lines. A line's number divided by [`LINES_OF_PAGE`] is the number of its page.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// The machine's memory: host addresses.
    arena: Range<usize>,
    /// Host pages outside of it, in the order of their numbers.
    others: Vec<usize>,
    number_of: BTreeMap<usize, u32>,
    /// Host pages and their numbers, by the low bits of the page.
    recent: Vec<(usize, u32)>,
}

impl Addresses {
    pub(super) fn new(arena: Range<usize>) -> Self {
        Self { arena, recent: vec![(usize::MAX, 0); RECENT], ..Self::default() }
    }

    /// The number of the line at an address.
    #[inline]
    pub(super) fn line(&mut self, addr: usize) -> u32 {
        let offset = addr.wrapping_sub(self.arena.start);
        if offset < self.arena.len() {
            return (offset >> LINE_SHIFT) as u32;
        }
        self.other_page(addr / PAGE_SIZE) * LINES_OF_PAGE + ((addr % PAGE_SIZE) >> LINE_SHIFT) as u32
    }

    /// The host address of a line.
    pub(super) fn host_address(&self, line: u32) -> usize {
        let (page, within) = (line / LINES_OF_PAGE, ((line % LINES_OF_PAGE) as usize) << LINE_SHIFT);
        match page.checked_sub(self.arena_pages()) {
            Some(other) => self.others[other as usize] * PAGE_SIZE + within,
            None => self.arena.start + page as usize * PAGE_SIZE + within,
        }
    }

    /// Number of pages of the machine's memory: their numbers come first.
    pub(super) fn arena_pages(&self) -> u32 {
        (self.arena.len() / PAGE_SIZE) as u32
    }

    #[inline]
    fn other_page(&mut self, host_page: usize) -> u32 {
        let slot = host_page % RECENT;
        if self.recent[slot].0 != host_page {
            self.recent[slot] = (host_page, self.find_page(host_page));
        }
        self.recent[slot].1
    }

    #[cold]
    fn find_page(&mut self, host_page: usize) -> u32 {
        let next = self.arena_pages() + self.others.len() as u32;
        let number = *self.number_of.entry(host_page).or_insert(next);
        if number == next {
            self.others.push(host_page);
        }
        number
    }
}
