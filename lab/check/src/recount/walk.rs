//! All that the tables of a space say, entry by entry.

use interleaf::frame::Memory;
use interleaf::machine::{Entry, Leaf, Machine};
use interleaf::space::AddressSpace;
use interleaf::sync::ReadGuard;
use interleaf::table::Table;
use interleaf::units::{Level, Order, Pfn, Vpn, VpnRange};

/// What stands in the tables of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A table below the root.
    Table {
        /// Its frame.
        pfn: Pfn,
        /// The level of its entries.
        level: Level,
        /// The pages that it covers.
        covers: VpnRange,
    },
    /// A slot that is neither absent nor a table.
    Entry {
        /// Its first page.
        page: Vpn,
        /// Its level.
        level: Level,
        /// What it says.
        entry: Entry,
    },
}

/// Tells all that stands in the tables of a space at rest, in order, tables before what they hold.
pub fn each_entry<M: Machine>(space: &AddressSpace<'_, M>, mut tell: impl FnMut(Seen)) {
    visit(space.inspect().page_table().top(), Vpn(0), &space.vm().read(), &mut tell);
}

/// What stands in the tables of each space, in the order of the spaces: each table is read once.
pub(super) struct Walked(Vec<Vec<Seen>>);

impl Walked {
    /// Of spaces at rest.
    pub fn of<M: Machine>(spaces: &[&AddressSpace<'_, M>]) -> Self {
        let seen = |space: &&AddressSpace<'_, M>| {
            let mut all = Vec::new();
            each_entry(space, |seen| all.push(seen));
            all
        };
        Self(spaces.iter().map(seen).collect())
    }

    /// All that stands in the tables of the space of that place among the spaces, in order.
    pub fn space(&self, nr: usize) -> impl Iterator<Item = Seen> {
        self.0[nr].iter().copied()
    }

    /// All that stands in all tables.
    pub fn all(&self) -> impl Iterator<Item = Seen> {
        self.0.iter().flatten().copied()
    }
}

/// Recursion is as deep as the tables.
fn visit<M: Machine>(
    table: Table<'_, '_, M>,
    first: Vpn,
    reading: &ReadGuard<'_, M::Cpu>,
    tell: &mut impl FnMut(Seen),
) {
    let level = table.level();
    for slot in 0..Level::ENTRIES {
        let page = first.add(slot as u64 * level.entry_pages());
        match table.entry(slot) {
            Entry::Absent => {}
            Entry::Table(pfn) => {
                if let Some(child) = table.child(slot, reading) {
                    let covers = VpnRange::new(page, page.add(level.entry_pages()));
                    tell(Seen::Table { pfn, level: child.level(), covers });
                    visit(child, page, reading, tell);
                }
            }
            entry => tell(Seen::Entry { page, level, entry }),
        }
    }
}

/// Records that count a leaf: that of the frame or folio that it maps, or those of the frames that another
/// space has split the folio into.
pub(super) fn nr_counted<M: Machine>(memory: &Memory<'_, M>, leaf: Leaf, level: Level) -> u64 {
    let order = memory.meta(leaf.pfn).map(|meta| meta.state().order());
    if order == Some(Order::BASE) { level.entry_pages() } else { 1 }
}
