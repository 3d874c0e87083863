//! Entries survive their bits, in every format.

use crate::machine::{CacheType, Entry, Format, Leaf, LeafKind, Marker};
use crate::table::SlotMarker;
use crate::table::format::{Aarch64, Ept, Sv39, Sv48, Sv57, X86_64, X86_64La57};
use crate::units::{Level, Pfn, Rights};

/// Leaves that the format can hold: all of a guest is code outside of the kernel.
pub(super) fn leaves<F: Format>() -> impl Iterator<Item = Leaf> {
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
    let held = rights.into_iter().filter(|it| F::SIGN_EXTENDED || it.is_empty() || it.contains(Rights::USER));
    held.flat_map(|rights| {
        (0..24).map(move |bits| Leaf {
            pfn: Pfn(0x4_0000 << (bits % 4)),
            rights,
            accessed: bits & 1 == 1,
            dirty: bits & 2 == 2,
            kind: if bits & 4 == 4 { LeafKind::OWNED } else { LeafKind::NOT_OWNED },
            cache: [CacheType::WriteBack, CacheType::WriteCombining, CacheType::Device][bits / 8],
        })
    })
}

fn every_entry_survives_the_bits<F: Format>() {
    for level in [Level::Pte, Level::Pmd, Level::Pud] {
        for leaf in leaves::<F>() {
            let entry = Entry::Leaf(leaf);
            assert_eq!(F::decode(F::encode(entry, level), level), entry, "{} {level:?}", F::NAME);
        }
    }
    for level in [Level::Pmd, Level::Pud, Level::P4d] {
        let entry = Entry::Table(Pfn(0x1234));
        assert_eq!(F::decode(F::encode(entry, level), level), entry, "{} {level:?}", F::NAME);
    }
    // Of every kind, also of those that there are not.
    let payloads =
        || (0..Marker::PAYLOAD_BITS).map(|bit| 1 << bit).chain([0, (1 << Marker::PAYLOAD_BITS) - 1]);
    let kinds = 1..1 << Marker::KIND_BITS;
    let markers = kinds.flat_map(|kind| payloads().map(move |payload| Marker::from_parts(kind, payload)));
    for level in [Level::Pte, Level::Pmd] {
        for marker in markers.clone() {
            let word = F::encode(Entry::Marker(marker), level);
            assert_eq!(F::decode(word, level), Entry::Marker(marker), "{} {word:#x}", F::NAME);
            assert_ne!(word, F::encode(Entry::Absent, level), "{}", F::NAME);
        }
        assert_eq!(F::decode(F::encode(Entry::Absent, level), level), Entry::Absent);
    }
    a_pending_frame_is_what_the_marker_says::<F>();
    assert_eq!(F::encode(Entry::Absent, Level::Pmd), 0);
}

/// Of words of all kinds, and of those with one bit more or less.
fn a_pending_frame_is_what_the_marker_says<F: Format>() {
    let pending = [0, 0x1234].map(|frame| SlotMarker::PendingFree(Pfn(frame)));
    let markers = pending.into_iter().chain([SlotMarker::Busy, SlotMarker::HugetlbReserved]);
    let entries = markers.map(SlotMarker::entry).chain(leaves::<F>().map(Entry::Leaf));
    for entry in entries.chain([Entry::Absent]) {
        let word = F::encode(entry, Level::Pte);
        for word in (0..u64::BITS).map(|bit| word ^ 1 << bit).chain([word]) {
            let decoded = match F::decode(word, Level::Pte) {
                Entry::Marker(marker) => SlotMarker::of(marker),
                _ => None,
            };
            let decoded = match decoded {
                Some(SlotMarker::PendingFree(pfn)) => Some(pfn),
                _ => None,
            };
            assert_eq!(F::pending_free(word, Level::Pte), decoded, "{} {word:#x}", F::NAME);
        }
    }
}

fn a_word_loses_the_right_to_write_as_its_leaf_does<F: Format>() {
    for level in [Level::Pte, Level::Pmd, Level::Pud] {
        for leaf in leaves::<F>() {
            let word = F::encode(Entry::Leaf(leaf), level);
            let protected = Entry::Leaf(Leaf { rights: leaf.rights - Rights::WRITE, ..leaf });
            assert_eq!(F::write_protected(word, level), F::encode(protected, level), "{} {leaf:?}", F::NAME);
        }
    }
}

fn a_use_sets_accessed_and_dirty_and_nothing_else<F: Format>() {
    for leaf in leaves::<F>().filter(|leaf| leaf.rights.contains(Rights::WRITE)) {
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
    every_entry_survives_the_bits::<Sv39>();
    every_entry_survives_the_bits::<Sv48>();
    every_entry_survives_the_bits::<Sv57>();
    every_entry_survives_the_bits::<Ept>();
}

#[test]
fn words_are_write_protected_without_decoding_in_every_format() {
    a_word_loses_the_right_to_write_as_its_leaf_does::<X86_64>();
    a_word_loses_the_right_to_write_as_its_leaf_does::<X86_64La57>();
    a_word_loses_the_right_to_write_as_its_leaf_does::<Aarch64>();
    a_word_loses_the_right_to_write_as_its_leaf_does::<Sv39>();
    a_word_loses_the_right_to_write_as_its_leaf_does::<Sv48>();
    a_word_loses_the_right_to_write_as_its_leaf_does::<Sv57>();
    a_word_loses_the_right_to_write_as_its_leaf_does::<Ept>();
}

#[test]
fn software_walkers_mark_use_in_every_format() {
    a_use_sets_accessed_and_dirty_and_nothing_else::<X86_64>();
    a_use_sets_accessed_and_dirty_and_nothing_else::<Aarch64>();
    a_use_sets_accessed_and_dirty_and_nothing_else::<Sv39>();
    a_use_sets_accessed_and_dirty_and_nothing_else::<Ept>();
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
        kind: LeafKind::OWNED,
        cache: CacheType::WriteBack,
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

#[test]
fn known_words_of_riscv_mean_what_the_manual_says() {
    // V, R, W, U, A, D; frame 0x1234.
    let word = 0x1234 << 10 | 0b1101_0111;
    let Entry::Leaf(leaf) = Sv39::decode(word, Level::Pte) else { panic!("{word:#x}") };
    assert_eq!((leaf.pfn, leaf.rights), (Pfn(0x1234), Rights::READ | Rights::WRITE | Rights::USER));
    assert!(leaf.accessed && leaf.dirty && leaf.owned());
    assert_eq!(Sv48::decode(1 << 10 | 1, Level::Pmd), Entry::Table(Pfn(1)));
    // A pointer in the last level, and a page to write and not to read, are reserved.
    assert_eq!(Sv57::decode(1 << 10 | 1, Level::Pte), Entry::Marker(Marker::UNKNOWN));
    assert_eq!(Sv39::decode(1 << 10 | 0b101, Level::Pte), Entry::Marker(Marker::UNKNOWN));
}

#[test]
fn known_words_of_ept_mean_what_the_manual_says() {
    // Read, write, write-back, accessed; frame 0x1234.
    let word = 0x1234 << 12 | 0b11 | 6 << 3 | 1 << 8;
    let Entry::Leaf(leaf) = Ept::decode(word, Level::Pte) else { panic!("{word:#x}") };
    assert_eq!((leaf.pfn, leaf.rights), (Pfn(0x1234), Rights::READ | Rights::WRITE | Rights::USER));
    assert_eq!((leaf.accessed, leaf.dirty, leaf.cache), (true, false, CacheType::WriteBack));
    assert_eq!(Ept::decode(0x1000 | 7, Level::Pmd), Entry::Table(Pfn(1)));
    assert!(matches!(Ept::decode(0x20_0000 | 7 | 1 << 7, Level::Pmd), Entry::Leaf(_)));
}
