//! Walkers that were written from the manuals alone, against every format: they share neither constants nor
//! functions with it. A walker answers what the hardware does with the words that the format writes.

mod aarch64;
mod ept;
mod riscv;
mod x86_64;

use super::format::leaves;
use crate::machine::{Entry, Format, Leaf};
use crate::table::SlotMarker;
use crate::table::format::{Aarch64, Ept, Sv39, Sv48, Sv57, X86_64, X86_64La57};
use crate::units::{Access, Level, PAGE_SHIFT, PageSize, Pfn, Rights, VirtAddr};
use std::collections::HashMap;
use std::format;
use std::vec::Vec;

/// Levels, root, address, access, whether user code makes it, and how a word is loaded; the physical address,
/// where the last entry lies, and that entry after the access.
type Walk = fn(u32, u64, u64, u8, bool, &dyn Fn(u64) -> u64) -> Option<(u64, u64, u64)>;

const ACCESSES: [(u8, Access); 3] = [(b'r', Access::Read), (b'w', Access::Write), (b'x', Access::Execute)];
const SIZES: [PageSize; 3] = [PageSize::Base, PageSize::Huge, PageSize::Giant];

/// Tables on the way to one address, in frames of their own by level, and an entry at the end.
struct Tables {
    words: HashMap<u64, u64>,
    address: u64,
}

/// The table of a level.
fn table_of(level: Level) -> u64 {
    (0x100 + level as u64) << PAGE_SHIFT
}

impl Tables {
    fn new<F: Format>(address: u64, entry: Entry, at: Level) -> Self {
        let (page, mut level, mut words) = (VirtAddr(address).vpn(), F::ROOT, HashMap::new());
        while level > at {
            let below = level.below().unwrap();
            let word = F::encode(Entry::Table(Pfn(table_of(below) >> PAGE_SHIFT)), level);
            words.insert(table_of(level) + 8 * level.index(page) as u64, word);
            level = below;
        }
        words.insert(table_of(at) + 8 * at.index(page) as u64, F::encode(entry, at));
        Self { words, address }
    }

    fn walk<F: Format>(&self, walk: Walk, address: u64, access: u8, user: bool) -> Option<(u64, u64, u64)> {
        let load = |at| self.words.get(&at).copied().unwrap_or(0);
        walk(F::ROOT as u32 + 1, table_of(F::ROOT), address, access, user, &load)
    }

    /// Asks for every access at an offset of the page that `leaf` maps.
    fn agree<F: Format>(&self, walk: Walk, leaf: Leaf, size: PageSize, offset: u64) {
        for ((letter, access), user) in ACCESSES.into_iter().flat_map(|it| [(it, true), (it, false)]) {
            if !user && leaf.rights.contains(Rights::USER) {
                // What the kernel may do with a user's page other settings decide.
                continue;
            }
            let found = self.walk::<F>(walk, self.address + offset, letter, user);
            let rights = if user { access.needs() | Rights::USER } else { access.needs() };
            let told = || format!("{} {access:?} user {user} of {leaf:?}, {size:?}", F::NAME);
            assert_eq!(found.is_some(), leaf.rights.contains(rights), "{}", told());
            let Some((physical, at, marked)) = found else { continue };
            assert_eq!(physical, leaf.pfn.addr().0 + offset, "{}", told());
            assert_eq!(marked, F::used(self.words[&at], access == Access::Write), "{}", told());
        }
    }
}

/// Addresses at both ends of each half, at a page of any size.
fn addresses<F: Format>() -> Vec<u64> {
    let (bits, giant) = (F::ADDRESS_BITS, PageSize::Giant.bytes());
    let half = 1 << (bits - 1);
    let low = [0, 5 * giant, half - giant];
    let high = if F::SIGN_EXTENDED { [half as i64; 2].map(|half| -half as u64) } else { [half; 2] };
    low.into_iter().chain([high[0], high[1] + 3 * giant]).collect()
}

fn agrees<F: Format>(walk: Walk) {
    for (address, size) in addresses::<F>().into_iter().flat_map(|at| SIZES.map(|size| (at, size))) {
        for mut leaf in leaves::<F>() {
            leaf.pfn = Pfn(leaf.pfn.0 & !(size.pages() - 1));
            let tables = Tables::new::<F>(address, Entry::Leaf(leaf), size.level());
            for offset in [0, 0x123, size.bytes() - 8] {
                tables.agree::<F>(walk, leaf, size, offset);
            }
            let beside = tables.walk::<F>(walk, address ^ size.bytes(), b'r', true);
            assert_eq!(beside, None, "{} beside {leaf:?}, {size:?}", F::NAME);
        }
        let pending = SlotMarker::PendingFree(Pfn(0x1234)).entry();
        for entry in [Entry::Absent, SlotMarker::Busy.entry(), pending] {
            let tables = Tables::new::<F>(address, entry, size.level());
            for (letter, _) in ACCESSES {
                let found = tables.walk::<F>(walk, address, letter, true);
                assert_eq!(found, None, "{} {entry:?}, {size:?}", F::NAME);
            }
        }
    }
}

#[test]
fn the_hardware_of_x86_64_reads_what_the_format_writes() {
    agrees::<X86_64>(x86_64::walk);
    agrees::<X86_64La57>(x86_64::walk);
}

#[test]
fn the_hardware_of_aarch64_reads_what_the_format_writes() {
    agrees::<Aarch64>(aarch64::walk);
}

#[test]
fn the_hardware_of_riscv_reads_what_the_formats_write() {
    agrees::<Sv39>(riscv::walk);
    agrees::<Sv48>(riscv::walk);
    agrees::<Sv57>(riscv::walk);
}

#[test]
fn the_hardware_of_ept_reads_what_the_format_writes() {
    agrees::<Ept>(ept::walk);
}

/// What a word without meaning decodes to must be nothing that the hardware follows.
#[test]
fn words_that_are_no_entries_are_followed_by_no_hardware() {
    fn check<F: Format>(walk: Walk) {
        let address = 5 * PageSize::Giant.bytes();
        for word in (0..64).flat_map(|bit| (0..1 << 12).step_by(7).map(move |low| low | 1 << bit)) {
            let mut tables = Tables::new::<F>(address, Entry::Absent, Level::Pte);
            let slot = Level::Pte.index(VirtAddr(address).vpn()) as u64;
            tables.words.insert(table_of(Level::Pte) + 8 * slot, word);
            let means_nothing = matches!(F::decode(word, Level::Pte), Entry::Absent | Entry::Marker(_));
            let found = ACCESSES.map(|(letter, _)| tables.walk::<F>(walk, address, letter, true));
            assert!(!means_nothing || found == [None; 3], "{} follows {word:#x}", F::NAME);
        }
    }
    check::<X86_64>(x86_64::walk);
    check::<Aarch64>(aarch64::walk);
    check::<Sv39>(riscv::walk);
    check::<Ept>(ept::walk);
}
