//! Levels of a page table and the sizes a leaf may have.

use super::{Order, PAGE_SHIFT, Vpn};

/// A level of the page table, by Linux's names. `Pte` tables hold base pages; `Pgd` is the root of a 5-level
/// table and `P4d` that of a 4-level one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum Level {
    /// Entries map 4 KiB (Intel: page table).
    Pte = 0,
    /// Entries map 2 MiB or point to `Pte` tables (Intel: page directory).
    Pmd = 1,
    /// Entries map 1 GiB or point to `Pmd` tables (Intel: PDPT).
    Pud = 2,
    /// Entries point to `Pud` tables (Intel: PML4).
    P4d = 3,
    /// Entries point to `P4d` tables (Intel: PML5).
    Pgd = 4,
}

/// Size of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PageSize {
    /// 4 KiB.
    Base,
    /// 2 MiB.
    Huge,
    /// 1 GiB.
    Giant,
}

impl Level {
    /// Entries in a table of any level.
    pub const ENTRIES: usize = 512;

    /// The level of the tables that entries of this level point to.
    pub const fn below(self) -> Option<Level> {
        match self {
            Level::Pte => None,
            Level::Pmd => Some(Level::Pte),
            Level::Pud => Some(Level::Pmd),
            Level::P4d => Some(Level::Pud),
            Level::Pgd => Some(Level::P4d),
        }
    }
    /// The level whose entries point to tables of this level.
    pub const fn above(self) -> Option<Level> {
        match self {
            Level::Pte => Some(Level::Pmd),
            Level::Pmd => Some(Level::Pud),
            Level::Pud => Some(Level::P4d),
            Level::P4d => Some(Level::Pgd),
            Level::Pgd => None,
        }
    }
    /// log2 of the pages that one entry of this level covers.
    pub const fn entry_shift(self) -> u32 {
        9 * self as u32
    }
    /// Pages that one entry of this level covers.
    pub const fn entry_pages(self) -> u64 {
        1 << self.entry_shift()
    }
    /// Pages that one table of this level covers.
    pub const fn table_pages(self) -> u64 {
        1 << (self.entry_shift() + 9)
    }
    /// The slot of `vpn` in a table of this level, below [`Level::ENTRIES`].
    pub const fn index(self, vpn: Vpn) -> usize {
        (vpn.0 >> self.entry_shift()) as usize & (Self::ENTRIES - 1)
    }
    /// The size of a leaf at this level, if one is possible.
    pub const fn leaf_size(self) -> Option<PageSize> {
        match self {
            Level::Pte => Some(PageSize::Base),
            Level::Pmd => Some(PageSize::Huge),
            Level::Pud => Some(PageSize::Giant),
            _ => None,
        }
    }
}

impl PageSize {
    /// The order of the frames behind a page of this size.
    pub const fn order(self) -> Order {
        match self {
            PageSize::Base => Order(0),
            PageSize::Huge => Order(9),
            PageSize::Giant => Order(18),
        }
    }
    /// The level whose entries map pages of this size.
    pub const fn level(self) -> Level {
        match self {
            PageSize::Base => Level::Pte,
            PageSize::Huge => Level::Pmd,
            PageSize::Giant => Level::Pud,
        }
    }
    /// Base pages in a page of this size.
    pub const fn pages(self) -> u64 {
        self.order().frames()
    }
    /// Bytes in a page of this size.
    pub const fn bytes(self) -> u64 {
        self.pages() << PAGE_SHIFT
    }
}
