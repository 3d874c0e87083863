//! Every pair of operations on a file that is written back, on the seeded machine.

use interleaf::machine::Format;
use interleaf::table::format::{Aarch64, X86_64};
use interleaf_check::pairs::scene::{all_files, run_file_pair};
use std::ops::Range;

/// A number from the environment: `SEED=7 SEEDS=1` plays the seed 7 of each pair.
fn seeds(default: Range<u64>) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("SEED").unwrap_or(default.start);
    first..first + number("SEEDS").unwrap_or(default.end - default.start)
}

fn play<F: Format>(seeds: Range<u64>) {
    for pair in all_files() {
        let played = run_file_pair::<F>(pair, seeds.clone());
        played.unwrap_or_else(|report| panic!("{pair:?}: {report}"));
    }
}

#[test]
fn no_pair_of_operations_on_a_file_loses_a_store_or_brings_back_what_was_cut_off() {
    play::<X86_64>(seeds(0..12));
}

#[test]
fn nor_where_an_entry_changes_through_an_absent_one() {
    play::<Aarch64>(seeds(100..104));
}
