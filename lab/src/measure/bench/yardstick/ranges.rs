//! rangemap: which of many ranges holds an address?

use crate::measure::bench::ns_per;
use rangemap::RangeMap;
use std::hint::black_box;

/// The bytes of each range, and of the hole after it.
pub const RANGE_BYTES: u64 = 64 << 10;

/// Looking up an address drawn by chance among `nr_ranges` ranges, none touching its neighbour.
pub fn rangemap_lookup(nr_ranges: u64, times: u64, seed: u64) -> impl FnMut() -> f64 {
    let mut map = RangeMap::new();
    for index in 0..nr_ranges {
        let start = index * 2 * RANGE_BYTES;
        map.insert(start..start + RANGE_BYTES, index);
    }
    let addresses = addresses(nr_ranges, seed);
    let mut turn = 0;
    move || {
        ns_per(times, || {
            turn = (turn + 1) % addresses.len();
            black_box(map.get(&addresses[turn]));
        })
    }
}

/// Addresses drawn by chance, each inside of one of the ranges: both sides of a pair look these up.
pub fn addresses(nr_ranges: u64, seed: u64) -> Vec<u64> {
    let mut state = seed;
    let mut draw = || {
        // Knuth's linear congruence; its upper bits are random enough to defeat a branch predictor.
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    let mut address = || draw() % nr_ranges * 2 * RANGE_BYTES + draw() % RANGE_BYTES;
    (0..4096).map(|_| address()).collect()
}

#[cfg(test)]
#[path = "tests/ranges.rs"]
mod tests;
