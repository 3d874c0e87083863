//! The record of a mapping and its state word.

use crate::machine::testing::TestCpu;
use crate::sync::Rcu;
use crate::sync::testing::Heap;
use crate::units::{Vpn, VpnRange};
use crate::vma::VmaState::*;
use crate::vma::state_word as word;
use crate::vma::{AnonId, Vma, VmaAttributes, VmaFlags, VmaState};
use std::vec::Vec;

type Record = Vma<TestCpu>;

/// One reader in the word, and the most that it counts.
const READER: u64 = 4;
const MOST_READERS: u64 = (1 << 13) - 1;

fn record(state: VmaState) -> Record {
    let range = VpnRange::new(Vpn(16), Vpn(20));
    Record::new(VmaAttributes::anonymous(range, VmaFlags::READ), state)
}

#[test]
fn states_go_from_busy_to_live_to_stale_and_never_back() {
    let cases =
        [(Stale, None, None), (Live, None, None), (Busy, Some(Live), None), (Frozen, None, Some(Live))];
    for (from, live, thawed) in cases {
        for anon in [AnonId::NONE, AnonId::new(5), AnonId::inherited(6), AnonId::from_bits(u64::MAX)] {
            for held in [0, 1, 4096, MOST_READERS] {
                let of = |state, anon| word::of(state, anon) + held * READER;
                let old = of(from, anon);
                assert_eq!((word::state(old), word::anon(old), word::is_held(old)), (from, anon, held > 0));
                assert_eq!(word::made_live(old), live.map(|state| of(state, anon)));
                assert_eq!(word::marked_stale(old), of(Stale, anon));
                assert_eq!(word::thawed(old), thawed.map(|state| of(state, anon)));
                let is_valid = matches!(from, Live | Frozen);
                assert_eq!(word::is_true(old), is_valid);
                let bare = from == Live && anon.is_none();
                assert_eq!(word::frozen_while_held(old), bare.then(|| of(Frozen, anon)));
                let alone = bare && held == 0;
                assert_eq!(word::frozen(old), alone.then(|| word::of(Frozen, anon)));
                let given = bare.then(|| of(Live, AnonId::new(9)));
                assert_eq!(word::given(old, AnonId::new(9)), given);
                let one_more = is_valid && held < MOST_READERS;
                assert_eq!(word::with_reader(old), one_more.then(|| old + READER), "{held} readers");
            }
        }
    }
}

/// Readers hold a valid record, and no other one; more than there are CPUs.
#[test]
fn a_record_counts_the_readers_that_hold_it_as_long_as_it_is_valid() {
    let rcu = Rcu::carve(&mut Heap, 1).unwrap();
    let (vma, reading) = (record(Busy), rcu.read());
    assert!(vma.hold(&reading).is_none(), "busy");
    vma.make_live();
    let held: Vec<_> = (0..4096).map(|_| vma.hold(&reading).expect("one CPU more")).collect();
    assert!(vma.freeze() && vma.hold(&reading).is_some(), "frozen is valid");
    vma.thaw();
    assert_eq!(vma.give_anon(AnonId::new(3)), Some(AnonId::new(3)));
    let more: Vec<_> = core::iter::from_fn(|| vma.hold(&reading)).collect();
    assert_eq!((held.len() + more.len()) as u64, MOST_READERS, "then one is refused");
    assert!(vma.is_live() && vma.anon() == AnonId::new(3));
    drop((held, more));
    assert_eq!((vma.mark_stale(), vma.hold(&reading).is_none()), (AnonId::new(3), true));
}

#[test]
fn zeroed_memory_is_a_stale_record() {
    assert_eq!(word::state(0), Stale);
    assert!(word::anon(0).is_none());
}

#[test]
fn an_identity_is_given_once_and_only_while_live() {
    let (one, two) = (AnonId::new(1), AnonId::new(2));
    let busy = record(Busy);
    assert_eq!(busy.give_anon(one), None);
    busy.make_live();
    assert_eq!(busy.give_anon(one), Some(one));
    assert_eq!(busy.give_anon(two), Some(one));
    assert_eq!(busy.mark_stale(), one);
    assert_eq!(busy.give_anon(two), None);
    assert_eq!((busy.state(), busy.anon(), busy.mark_stale()), (Stale, one, one));
}

#[test]
fn a_frozen_record_gets_no_identity_until_it_thaws() {
    let vma = record(Live);
    assert!(vma.freeze() && !vma.freeze(), "frozen once");
    assert!(vma.is_live());
    assert_eq!(vma.give_anon(AnonId::new(1)), None);
    vma.thaw();
    assert_eq!(vma.give_anon(AnonId::new(1)), Some(AnonId::new(1)));
    assert!(!vma.freeze(), "an identity stays");
    let busy = record(Busy);
    assert!(!busy.freeze());
    busy.thaw();
    assert_eq!(busy.state(), Busy, "thawing does not make a busy record live");
}

#[test]
fn a_record_has_the_attributes_that_it_was_made_from() {
    let attributes = VmaAttributes { anon: AnonId::new(7), offset: 3, ..record(Live).attributes() };
    let vma = Record::new(attributes, Live);
    assert_eq!(vma.attributes(), attributes);
    assert!(vma.is_live() && vma.contains(Vpn(19)) && !vma.contains(Vpn(20)));
    assert_eq!(vma.frame_offset(Vpn(18)), 5);
    assert_eq!(size_of::<Record>(), 48);
}
