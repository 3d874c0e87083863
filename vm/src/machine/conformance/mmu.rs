//! Rules of translation: tables built by hand, loads as user code, flushes.

use super::{Harness, Rule, Suite};
use crate::machine::{Cpu, Entry, Format, Leaf, Machine, RootTable};
use crate::units::{Level, Order, Pfn, Rights, Vpn, VpnRange};

/// The first page that the suite maps; it lies in the middle of a table of every level.
const PAGE: Vpn = Vpn(0x1_2345_6789 >> 3);
/// Number of pages that it maps.
const PAGES: u64 = 4;

/// Tables on the way to [`PAGE`], built by hand: a root, one table for each level below.
#[derive(Clone, Copy)]
struct Tables {
    /// The root's frame; the table of each lower level is in the next one.
    root: Pfn,
}

impl<M: Machine, H: Harness<M> + Sync> Suite<'_, M, H> {
    pub(super) fn mmu(&self) {
        self.on_one_cpu(|| {
            self.walks();
            self.flush_range();
            self.flush_upper();
            self.flush_all();
            self.roots();
            self.with_preempt_off(|machine| machine.load_root(None));
        });
    }

    fn first_tables(&self) -> Tables {
        Tables { root: self.frames.start }
    }

    /// Makes this CPU translate through the tables.
    fn load(&self, tables: Tables) {
        // SAFETY: `build` has made them of frames of the suite's, and they map such frames; the harness loads
        // from pages that they map, and the suite ends with no root loaded.
        let root = unsafe { RootTable::new(tables.root) };
        self.with_preempt_off(|machine| machine.load_root(Some(root)));
    }

    fn second_tables(&self) -> Tables {
        Tables { root: self.frames.start.add(6) }
    }

    /// A frame of data; its words tell its number.
    fn data(&self, n: u64) -> Pfn {
        let pfn = self.frames.start.add(12 + n);
        self.write_frame(pfn, 0, &pfn.0.to_ne_bytes());
        pfn
    }

    fn set(&self, table: Pfn, level: Level, vpn: Vpn, entry: Entry) {
        let word = M::Format::encode(entry, level);
        self.write_frame(table, level.index(vpn) * 8, &word.to_ne_bytes());
    }

    /// Builds the tables, empty but for the path down.
    fn build(&self, tables: Tables) {
        let mut level = M::Format::ROOT;
        self.zero_block(tables.root, Order::BASE);
        while let Some(below) = level.below() {
            let next = tables.of::<M>(below);
            self.zero_block(next, Order::BASE);
            self.set(tables.of::<M>(level), level, PAGE, Entry::Table(next));
            level = below;
        }
    }

    fn map(&self, tables: Tables, page: u64, to: Option<Pfn>) {
        let leaf = |pfn| Leaf::new(pfn, Rights::READ | Rights::USER);
        let entry = to.map_or(Entry::Absent, |pfn| Entry::Leaf(leaf(pfn)));
        self.set(tables.of::<M>(Level::Pte), Level::Pte, PAGE.add(page), entry);
    }

    /// The number of the frame that user code sees at a page.
    fn seen(&self, page: u64) -> Option<Pfn> {
        self.harness.load(self.machine, PAGE.add(page).addr()).map(Pfn)
    }

    /// Tables that map every page, loaded, and every page looked at once.
    fn mapped(&self) -> Tables {
        let tables = self.first_tables();
        // A root in use may hold the platform's half as well: it is not built while loaded.
        self.with_preempt_off(|machine| machine.load_root(None));
        self.build(tables);
        (0..PAGES).for_each(|page| self.map(tables, page, Some(self.data(page))));
        self.load(tables);
        (0..PAGES).for_each(|page| {
            self.check(Rule::WalksTables, self.seen(page) == Some(self.data(page)));
        });
        tables
    }

    fn walks(&self) {
        let tables = self.mapped();
        self.check(Rule::WalksTables, self.seen(PAGES).is_none());
        self.map(tables, PAGES, Some(self.data(PAGES)));
        self.check(Rule::WalksTables, self.seen(PAGES) == Some(self.data(PAGES)));
    }

    fn flush_range(&self) {
        for range in [0..1, 1..3, 0..PAGES, 3..4] {
            let tables = self.mapped();
            range.clone().for_each(|page| self.map(tables, page, None));
            self.with_preempt_off(|machine| {
                machine.flush_range(VpnRange::new(PAGE.add(range.start), PAGE.add(range.end)))
            });
            for page in 0..PAGES {
                let expected = (!range.contains(&page)).then(|| self.data(page));
                self.check(Rule::FlushRange, self.seen(page) == expected);
            }
        }
    }

    /// Links another table below each upper level in turn.
    fn flush_upper(&self) {
        let other = self.data(7);
        let mut level = Level::Pmd;
        while level <= M::Format::ROOT {
            let (tables, fresh) = (self.mapped(), self.second_tables());
            self.build(fresh);
            self.map(fresh, 0, Some(other));
            self.set(tables.of::<M>(level), level, PAGE, Entry::Absent);
            let range = VpnRange::new(PAGE, PAGE.add(PAGES));
            self.with_preempt_off(|machine| machine.flush_range(range));
            self.check(Rule::FlushUpper, (0..PAGES).all(|page| self.seen(page).is_none()));
            let below = level.below().unwrap_or(level);
            self.set(tables.of::<M>(level), level, PAGE, Entry::Table(fresh.of::<M>(below)));
            self.check(Rule::FlushUpper, self.seen(0) == Some(other) && self.seen(1).is_none());
            let Some(above) = level.above() else { return };
            level = above;
        }
    }

    fn flush_all(&self) {
        let tables = self.mapped();
        (0..PAGES).for_each(|page| self.map(tables, page, None));
        self.with_preempt_off(|machine| machine.flush_all());
        self.check(Rule::FlushAll, (0..PAGES).all(|page| self.seen(page).is_none()));
    }

    fn roots(&self) {
        let (first, second) = (self.mapped(), self.second_tables());
        self.build(second);
        self.map(second, 0, Some(self.data(7)));
        self.load(second);
        self.check(Rule::RootSwitches, self.seen(0) == Some(self.data(7)) && self.seen(1).is_none());
        self.map(first, 0, Some(self.data(6)));
        self.tells_only(Some(second));
        self.load(first);
        self.check(Rule::RootSwitches, self.seen(0) == Some(self.data(6)));
        self.tells_only(Some(first));
        self.with_preempt_off(|machine| machine.load_root(None));
        self.tells_only(None);
        self.check(Rule::RootNone, (0..PAGES).all(|page| self.seen(page).is_none()));
    }

    /// Checks that the machine tells neither of the suite's roots as loaded, but `loaded`.
    fn tells_only(&self, loaded: Option<Tables>) {
        let state = M::Cpu::interrupts_off();
        let told = self.machine.loaded_root();
        // SAFETY: the one just turned off.
        unsafe { M::Cpu::interrupts_restore(state) };
        let loaded = loaded.map(|tables| tables.root);
        let others = [self.first_tables(), self.second_tables()].map(|tables| Some(tables.root));
        self.check(Rule::RootTold, told == loaded || !others.contains(&told));
    }
}

impl Tables {
    /// The frame of the table of a level.
    fn of<M: Machine>(self, level: Level) -> Pfn {
        self.root.add(M::Format::ROOT as u64 - level as u64)
    }
}
