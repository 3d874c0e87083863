//! Markers: what is done at each kind, and that no word is taken for another's.

use crate::machine::{Entry, Format, Marker};
use crate::table::format::{Aarch64, Ept, Sv39, Sv48, Sv57, X86_64, X86_64La57};
use crate::table::marker::{OnFault, OnFork, OnZap};
use crate::table::{Poison, SlotMarker, SwapSlot, fault_rule};
use crate::units::{Level, Pfn};
use std::collections::BTreeMap;

const SLOT: SwapSlot = SwapSlot { exclusive: true, device: 5, offset: 0x2_1234_5678 };

/// One marker of each kind, and its row: at a fault, where the range is cleared, at a fork, and whether it
/// owns something.
const KINDS: [(SlotMarker, OnFault, OnZap, OnFork, bool); 7] = [
    (SlotMarker::Busy, OnFault::Wait, OnZap::Clear, OnFork::Skip, false),
    (SlotMarker::PendingFree(Pfn(9)), OnFault::WaitForZap, OnZap::Leave, OnFork::Skip, true),
    (SlotMarker::HugetlbReserved, OnFault::Fill, OnZap::Clear, OnFork::Skip, true),
    (SlotMarker::Swap(SLOT), OnFault::Fill, OnZap::Clear, OnFork::Copy, true),
    (SlotMarker::Migrating(Pfn(9)), OnFault::Wait, OnZap::Clear, OnFork::Skip, true),
    (SlotMarker::Guard, OnFault::Deny, OnZap::Clear, OnFork::Copy, false),
    (SlotMarker::Poisoned(Poison::HugetlbUnmapped), OnFault::BusError, OnZap::Clear, OnFork::Copy, false),
];

#[test]
fn each_kind_has_its_row_of_rules() {
    for (marker, fault, zap, fork, owns) in KINDS {
        let rules = (marker.on_fault(), marker.on_zap(), marker.on_fork(), marker.owns());
        assert_eq!(rules, (fault, zap, fork, owns), "{marker:?}");
        assert_eq!(fault_rule(marker.marker()), Some(fault));
    }
    assert_eq!(fault_rule(Marker::UNKNOWN), None);
}

/// A word of which one bit of the kind is wrong is no other kind's.
#[test]
fn numbers_of_kinds_differ_in_two_bits_at_least() {
    let numbers: BTreeMap<_, _> = KINDS.iter().map(|row| (row.0.marker().kind(), row.0)).collect();
    assert_eq!(numbers.len(), KINDS.len(), "two kinds have one number");
    for number in numbers.keys().chain([&Marker::UNKNOWN.kind()]) {
        assert_eq!(number.count_ones() % 2, 1, "kind {number}");
    }
    assert!(!numbers.contains_key(&Marker::UNKNOWN.kind()));
}

#[test]
fn a_swap_slot_keeps_all_of_its_bits_and_no_more() {
    let largest = SwapSlot { exclusive: true, device: 31, offset: (1 << 34) - 1 };
    for slot in [SLOT, largest, SwapSlot { exclusive: false, device: 0, offset: 0 }] {
        let marker = SlotMarker::Swap(slot);
        assert_eq!(SlotMarker::of(marker.marker()), Some(marker));
        assert_eq!(marker.marker().payload() >> Marker::PAYLOAD_BITS, 0);
    }
    let too_large = SlotMarker::Swap(SwapSlot { exclusive: false, device: 32, offset: 1 << 34 });
    assert_eq!(too_large.marker().payload(), 0);
    let beyond = Marker::from_parts(too_large.marker().kind(), 1 << Marker::PAYLOAD_BITS);
    assert_eq!(SlotMarker::of(beyond), None);
}

/// Of a word that is not present: a marker of a kind that there is has this word and no other; and a word
/// with one bit more or less is of another payload, or of no kind.
fn words_are_understood_or_refused<F: Format>() {
    for (marker, ..) in KINDS {
        let word = F::encode(marker.entry(), Level::Pte);
        assert_eq!(F::decode(word, Level::Pte), marker.entry(), "{} {marker:?}", F::NAME);
        for bit in 0..u64::BITS {
            let Entry::Marker(other) = F::decode(word ^ 1 << bit, Level::Pte) else { continue };
            if let Some(other) = SlotMarker::of(other) {
                assert_eq!(other.marker().kind(), marker.marker().kind(), "{} bit {bit}", F::NAME);
                assert_ne!(other, marker, "{} bit {bit}", F::NAME);
            }
        }
    }
    // All words of two bits besides the lowest ones, and of those.
    let high = |low| (12..u64::BITS).map(move |bit| low | 1 << bit).chain([low]);
    let words = (0..1 << 12).flat_map(high);
    for word in words.flat_map(|word| [word, word | 1 << 12, word | 1 << 40]) {
        let Entry::Marker(marker) = F::decode(word, Level::Pte) else { continue };
        match SlotMarker::of(marker) {
            Some(marker) => assert_eq!(F::encode(marker.entry(), Level::Pte), word, "{} {marker:?}", F::NAME),
            None => assert_eq!(fault_rule(marker), None, "{} {word:#x}", F::NAME),
        }
    }
}

#[test]
fn every_word_of_every_format_is_one_markers_or_no_markers() {
    words_are_understood_or_refused::<X86_64>();
    words_are_understood_or_refused::<X86_64La57>();
    words_are_understood_or_refused::<Aarch64>();
    words_are_understood_or_refused::<Sv39>();
    words_are_understood_or_refused::<Sv48>();
    words_are_understood_or_refused::<Sv57>();
    words_are_understood_or_refused::<Ept>();
}
