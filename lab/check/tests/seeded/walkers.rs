//! Every walker beside every pair of writers, on the seeded machine, in each kind of format; some stop for
//! ever.

use interleaf::machine::Format;
use interleaf::table::format::{Aarch64, Sv48, X86_64};
use interleaf_check::walkers::{all, run_walker};
use std::ops::Range;

/// Seeds for each walker and writer: each other writer is met several times. Half as many in the formats that
/// came later.
const SEEDS: u64 = 24;

fn each_walker_beside_each_pair_of_writers<F: Format>(seeds: Range<u64>) {
    for played in all() {
        run_walker::<F>(played, seeds.clone()).unwrap_or_else(|trouble| panic!("{trouble}"));
    }
}

#[test]
fn each_walker_beside_each_pair_of_writers_on_x86() {
    each_walker_beside_each_pair_of_writers::<X86_64>(0..SEEDS);
}

#[test]
fn each_walker_beside_each_pair_of_writers_on_aarch64() {
    each_walker_beside_each_pair_of_writers::<Aarch64>(SEEDS..SEEDS + SEEDS / 2);
}

#[test]
fn each_walker_beside_each_pair_of_writers_on_riscv() {
    each_walker_beside_each_pair_of_writers::<Sv48>(2 * SEEDS..2 * SEEDS + SEEDS / 2);
}
