//! What a seed decides.

/// A small generator of random numbers (SplitMix64): every seed is as good as any other.
#[derive(Clone, Copy, Debug)]
pub(in crate::machine) struct Random(u64);

impl Random {
    pub(in crate::machine) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(in crate::machine) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// A number below `n`, which is not 0.
    pub(in crate::machine) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    pub(in crate::machine) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}
