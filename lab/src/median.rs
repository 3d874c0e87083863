//! The median and its interval, without any assumption about how the samples are distributed.
//!
//! On a shared machine the time of one run has no tidy distribution: interrupts and neighbours give it a long
//! tail. The order of the samples needs none. Each sample is below the true median with probability 1/2, so
//! how many are is a coin thrown n times, and the k-th smallest and k-th largest sample enclose the true
//! median unless fewer than k throws, on one side or the other, came up. `rank` finds the largest k for which
//! that happens in at most 5 % of runs; with 31 samples it is the 10th from either end.

#![forbid(unsafe_code)]

/// The median of some samples and the 95 % interval of the true median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Median {
    /// The middle sample, or the mean of the two middle ones.
    pub middle: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Median {
    /// The median of `samples`, which are finite and at least one.
    pub fn of(samples: &[f64]) -> Median {
        assert!(!samples.is_empty(), "a median needs a sample");
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let rank = rank(n);
        let middle = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        Median { middle, low: sorted[rank - 1], high: sorted[n - rank] }
    }

    /// How far the interval reaches from 1, to the worse side.
    pub fn spread_around_one(&self) -> f64 {
        (self.high - 1.0).max(1.0 - self.low).max(0.0)
    }
}

/// The largest k such that the k-th smallest and the k-th largest of `n` samples enclose the true median with
/// a probability of at least 95 %; 1 (smallest and largest) where `n` is too small for that.
fn rank(n: usize) -> usize {
    let all_throws = 2f64.powi(n as i32);
    let mut ways = 1.0;
    let mut below = 0.0;
    for k in 0..n {
        below += ways / all_throws;
        if 2.0 * below > 0.05 {
            return k.max(1);
        }
        ways = ways * (n - k) as f64 / (k + 1) as f64;
    }
    1
}

#[cfg(test)]
#[path = "tests/median.rs"]
mod tests;
