//! Claims of deferred blocks.

use super::*;
use std::vec::Vec;

fn range(from: u64, to: u64) -> PfnRange {
    PfnRange::new(Pfn(from), Pfn(to))
}

#[test]
fn a_claim_takes_the_lowest_blocks_that_are_wanted_and_unclaimed() {
    assert_eq!(next_claim(0, u32::MAX, 3), Some(0b111));
    assert_eq!(next_claim(0b101, 0b1111, 9), Some(0b1010));
    assert_eq!(next_claim(0b1111, 0b1111, 9), None);
    assert_eq!(next_claim(0, 0, 1), None);
    assert_eq!(next_claim(0, u32::MAX, 0), None);
    assert_eq!(next_claim(0, u32::MAX, 32), Some(u32::MAX));
}

#[test]
fn a_claim_changes_the_unclaimed_blocks_of_its_own_section_only() {
    type State = SectionState<crate::machine::testing::TestCpu>;
    let words: Vec<State> = (0..600).map(|_| State::new()).collect();
    let span = range(0, 600 * SECTION_FRAMES);
    assert_eq!(ClaimBitmap::<crate::machine::testing::TestCpu>::nr_sections(span), words.len());
    let claims = ClaimBitmap::new(span, &words);
    assert!((0..600).all(|section| claims.unclaimed(section, span) == u32::MAX));
    for section in [599, 0, 17, 16, 299] {
        assert_eq!(claims.claim(section, span, 2), Some(ClaimedBlocks { section, blocks: 0b11 }));
        assert_eq!(claims.unclaimed(section, span), !0b11);
    }
    assert_eq!((0..600).filter(|&section| claims.unclaimed(section, span) == u32::MAX).count(), 595);
    assert_eq!((claims.unclaimed(600, span), claims.claim(600, range(0, 1 << 40), 1)), (0, None));
}

#[test]
fn only_whole_blocks_of_the_section_are_wanted() {
    assert_eq!(blocks_in(0, range(0, 1 << 40)), u32::MAX);
    assert_eq!(blocks_in(1, range(0, SECTION_FRAMES)), 0);
    assert_eq!(blocks_in(0, range(1, 3 * 1024 - 1)), 0b10);
    assert_eq!(blocks_in(2, range(0, 2 * SECTION_FRAMES + 1024)), 1);
    assert_eq!(blocks_in(0, range(1, 2)), 0);
    assert_eq!(blocks_in(5, range(0, 9)), 0);
}

#[test]
fn the_ranges_of_a_claim_are_its_blocks() {
    let claim = ClaimedBlocks { section: 1, blocks: 0b1011 | 1 << 31 };
    let ranges: Vec<_> = claim.ranges().map(|p| (p.start.0 - SECTION_FRAMES, p.len())).collect();
    assert_eq!(ranges, [(0, 2048), (3 * 1024, 1024), (31 * 1024, 1024)]);
    let all = ClaimedBlocks { section: 0, blocks: u32::MAX };
    assert_eq!(all.ranges().collect::<Vec<_>>(), [range(0, SECTION_FRAMES)]);
}
