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
    let mut addresses = Addresses::new(nr_ranges, seed);
    move || {
        let mut drawn = addresses.draw(times);
        ns_per(times, || {
            black_box(map.get(&drawn.next().expect("one is drawn for each lookup")));
        })
    }
}

/// Addresses drawn by chance, each inside of one of the ranges: both sides of a pair look these up. They
/// never repeat: a branch predictor may learn a few thousand that do, in one build and not in another.
pub struct Addresses {
    state: u64,
    nr_ranges: u64,
}

impl Addresses {
    /// Addresses in `nr_ranges` ranges; `seed` decides which.
    pub fn new(nr_ranges: u64, seed: u64) -> Self {
        Self { state: seed, nr_ranges }
    }

    /// The next `count` addresses.
    pub fn draw(&mut self, count: u64) -> impl Iterator<Item = u64> + use<> {
        let drawn: Vec<u64> = (0..count).map(|_| self.address()).collect();
        drawn.into_iter()
    }

    fn address(&mut self) -> u64 {
        self.number() % self.nr_ranges * 2 * RANGE_BYTES + self.number() % RANGE_BYTES
    }

    /// Knuth's linear congruence, whose upper bits are random enough to defeat a branch predictor.
    fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.state >> 33
    }
}

#[cfg(test)]
#[path = "tests/ranges.rs"]
mod tests;
