//! Every pair of what meets at the huge zero page, on the seeded machine.

use interleaf::machine::Format;
use interleaf::table::format::{Aarch64, X86_64};
use interleaf_check::zero_races::{all, run_pair};
use std::ops::Range;

fn every_pair_agrees<F: Format>(seeds: Range<u64>) {
    for pair in all() {
        run_pair::<F>(pair, seeds.clone()).unwrap_or_else(|report| panic!("{pair:?}: {report}"));
    }
}

#[test]
fn whatever_meets_at_the_huge_zero_page_loses_no_store_and_reads_nothing_old_on_x86() {
    every_pair_agrees::<X86_64>(0..32);
}

#[test]
fn whatever_meets_at_the_huge_zero_page_loses_no_store_and_reads_nothing_old_on_aarch64() {
    every_pair_agrees::<Aarch64>(32..64);
}
