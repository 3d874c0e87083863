//! Every pair of operations, on the seeded machine. `interleaf check pairs --seeds N` plays more seeds.

use interleaf::machine::Format;
use interleaf::table::format::{Aarch64, X86_64};
use interleaf_check::pairs::{Variation, all, run_pair};
use std::ops::Range;

/// All variations of every pair, once; a quarter of them on the second format.
const SEEDS: u64 = Variation::COUNT;

fn every_pair_is_in_some_order<F: Format>(seeds: Range<u64>) {
    for pair in all() {
        run_pair::<F>(pair, seeds.clone()).unwrap_or_else(|trouble| panic!("{trouble}"));
    }
}

#[test]
fn every_pair_of_operations_ends_as_some_order_of_them_would_on_x86() {
    every_pair_is_in_some_order::<X86_64>(0..SEEDS);
}

#[test]
fn every_pair_of_operations_ends_as_some_order_of_them_would_on_aarch64() {
    every_pair_is_in_some_order::<Aarch64>(SEEDS..SEEDS + SEEDS / 4);
}
