//! Entries survive their bits, in every format.

use crate::machine::{Entry, Format, Leaf, Marker};
use crate::table::format::{Aarch64, X86_64, X86_64La57};
use crate::units::{Level, Pfn, Rights};

fn leaves() -> impl Iterator<Item = Leaf> {
    let rights = [
        Rights::empty(),
        Rights::READ | Rights::USER,
        Rights::READ | Rights::WRITE | Rights::USER,
        Rights::READ | Rights::EXECUTE | Rights::USER,
        Rights::READ | Rights::WRITE | Rights::EXECUTE | Rights::USER,
        Rights::READ,
        Rights::READ | Rights::WRITE,
        Rights::READ | Rights::EXECUTE,
    ];
    rights.into_iter().flat_map(|rights| {
        (0..4).map(move |bits| Leaf {
            pfn: Pfn(0x4_0000 << bits),
            rights,
            accessed: bits & 1 == 1,
            dirty: bits & 2 == 2,
        })
    })
}

fn every_entry_survives_the_bits<F: Format>() {
    for level in [Level::Pte, Level::Pmd, Level::Pud] {
        for leaf in leaves() {
            let entry = Entry::Leaf(leaf);
            assert_eq!(F::decode(F::encode(entry, level), level), entry, "{} {level:?}", F::NAME);
        }
    }
    for level in [Level::Pmd, Level::Pud, Level::P4d] {
        let entry = Entry::Table(Pfn(0x1234));
        assert_eq!(F::decode(F::encode(entry, level), level), entry, "{} {level:?}", F::NAME);
    }
    for entry in [Entry::Absent, Entry::Marker(Marker::Busy), Entry::Marker(Marker::Unknown)] {
        assert_eq!(F::decode(F::encode(entry, Level::Pte), Level::Pte), entry);
    }
    assert_eq!(F::encode(Entry::Absent, Level::Pmd), 0);
}

fn a_use_sets_accessed_and_dirty_and_nothing_else<F: Format>() {
    for leaf in leaves().filter(|leaf| leaf.rights.contains(Rights::WRITE)) {
        let word = F::encode(Entry::Leaf(leaf), Level::Pte);
        let Entry::Leaf(read) = F::decode(F::used(word, false), Level::Pte) else { panic!() };
        assert_eq!(read, Leaf { accessed: true, ..leaf });
        let Entry::Leaf(written) = F::decode(F::used(word, true), Level::Pte) else { panic!() };
        assert_eq!(written, Leaf { accessed: true, dirty: true, ..leaf });
    }
}

#[test]
fn entries_survive_encoding_in_every_format() {
    every_entry_survives_the_bits::<X86_64>();
    every_entry_survives_the_bits::<X86_64La57>();
    every_entry_survives_the_bits::<Aarch64>();
}

#[test]
fn software_walkers_mark_use_in_every_format() {
    a_use_sets_accessed_and_dirty_and_nothing_else::<X86_64>();
    a_use_sets_accessed_and_dirty_and_nothing_else::<Aarch64>();
}

#[test]
fn known_words_of_x86_mean_what_the_manual_says() {
    // Present, writable, user, accessed, dirty, no-execute; frame 0x1234.
    let word = 1 << 63 | 0x1234 << 12 | 0x67;
    let leaf = Leaf {
        pfn: Pfn(0x1234),
        rights: Rights::READ | Rights::WRITE | Rights::USER,
        accessed: true,
        dirty: true,
    };
    assert_eq!(X86_64::decode(word, Level::Pte), Entry::Leaf(leaf));
    assert_eq!(X86_64::decode(0x1000 | 0x67, Level::Pmd), Entry::Table(Pfn(1)));
    assert_eq!(X86_64::decode(word | 0x80, Level::Pmd), Entry::Leaf(leaf));
}

#[test]
fn known_words_of_aarch64_mean_what_the_manual_says() {
    // Valid page, AF, EL0, read-only by AP[2], DBM set: writable and clean; UXN and PXN set.
    let word = 0x1234 << 12 | 3 | 1 << 10 | 1 << 6 | 1 << 7 | 1 << 51 | 1 << 53 | 1 << 54;
    let Entry::Leaf(leaf) = Aarch64::decode(word, Level::Pte) else { panic!("{word:#x}") };
    assert_eq!(leaf.rights, Rights::READ | Rights::WRITE | Rights::USER);
    assert!(leaf.accessed && !leaf.dirty);
}
