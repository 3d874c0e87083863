//! Every pair of operations, on the seeded machine. `interleaf check pairs --seeds N` plays more seeds, and
//! `cargo xtask soak pairs` each pair in all variations.

use interleaf::machine::Format;
use interleaf::space::Path;
use interleaf::table::format::{Aarch64, X86_64};
use interleaf_check::pairs::{Variation, all, run_pair};
use std::ops::Range;

/// The variations of the two paths that users take.
const OF_TWO: u64 = Variation::OF_TWO;
/// Of the third path, a yardstick, as many that each kind of memory and each state before is among them.
const OF_THIRD: [u64; 4] = [OF_TWO, OF_TWO + 10, OF_TWO + 20, OF_TWO + 30];

fn every_pair_is_in_some_order<F: Format>(seeds: Range<u64>) {
    for pair in all() {
        run_pair::<F>(pair, seeds.clone()).unwrap_or_else(|trouble| panic!("{trouble}"));
    }
}

/// Each pair in half of the variations of `path`, and each variation with half of the pairs.
fn every_pair_on(path: Path) {
    for (nth, pair) in (0..).zip(all()) {
        let is_played = |seed: &u64| seed.count_ones() % 2 == nth % 2;
        let on_path = |seed: &u64| Variation::of_seed(*seed).path == path;
        for seed in (0..OF_TWO).filter(is_played).filter(on_path) {
            run_pair::<X86_64>(pair, seed..seed + 1).unwrap_or_else(|trouble| panic!("{trouble}"));
        }
    }
}

#[test]
fn every_pair_of_operations_ends_as_some_order_of_them_would_on_x86() {
    every_pair_on(Path::Speculative);
}

#[test]
fn every_pair_of_operations_under_the_lock_ends_as_some_order_of_them_would_on_x86() {
    every_pair_on(Path::Locked);
}

#[test]
fn every_pair_on_the_third_path_too() {
    OF_THIRD.into_iter().for_each(|seed| every_pair_is_in_some_order::<X86_64>(seed..seed + 2));
}

/// A quarter of them on the second format, with other seeds than on the first.
#[test]
fn every_pair_of_operations_ends_as_some_order_of_them_would_on_aarch64() {
    let seeds = Variation::COUNT..Variation::COUNT + OF_TWO / 4;
    every_pair_is_in_some_order::<Aarch64>(seeds);
}
