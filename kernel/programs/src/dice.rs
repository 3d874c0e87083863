//! Pseudo-random numbers from a seed (splitmix64).

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `sides`, which is not 0.
    pub fn below(&mut self, sides: usize) -> usize {
        ((u128::from(self.roll()) * sides as u128) >> 64) as usize
    }
}

/// A pseudo-random number that depends on `value` alone. Programs write it into pages, so that an unexpected
/// page is noticed.
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
