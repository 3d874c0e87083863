//! The record of a mapping and its state word.

use crate::machine::testing::TestCpu;
use crate::units::{Vpn, VpnRange};
use crate::vma::VmaState::*;
use crate::vma::state_word as word;
use crate::vma::{AnonId, Vma, VmaAttributes, VmaFlags, VmaState};

type Record = Vma<TestCpu>;

fn record(state: VmaState) -> Record {
    let range = VpnRange::new(Vpn(16), Vpn(20));
    Record::new(VmaAttributes::anonymous(range, VmaFlags::READ), state)
}

#[test]
fn states_go_from_busy_to_live_to_stale_and_never_back() {
    let cases = [
        (Stale, None, None, None),
        (Live, None, Some(Stale), None),
        (Busy, Some(Live), Some(Stale), None),
        (Frozen, None, Some(Stale), Some(Live)),
    ];
    for (from, live, stale, thawed) in cases {
        for anon in [AnonId::NONE, AnonId::new(5), AnonId::inherited(6)] {
            let old = word::of(from, anon);
            assert_eq!((word::state(old), word::anon(old)), (from, anon));
            assert_eq!(word::made_live(old), live.map(|state| word::of(state, anon)));
            assert_eq!(word::marked_stale(old), stale.map(|state| word::of(state, anon)));
            assert_eq!(word::thawed(old), thawed.map(|state| word::of(state, anon)));
            assert_eq!(word::is_true(old), matches!(from, Live | Frozen));
            let bare = from == Live && anon.is_none();
            assert_eq!(word::frozen(old), bare.then(|| word::of(Frozen, anon)));
            let given = bare.then(|| word::of(Live, AnonId::new(9)));
            assert_eq!(word::given(old, AnonId::new(9)), given);
        }
    }
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
