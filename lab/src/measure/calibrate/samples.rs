//! Samples of which a low percentile is taken: what other work on the host adds is left out.

/// Times of the same work, in nanoseconds.
pub(super) struct Samples(Vec<f64>);

impl Samples {
    /// `count` samples.
    pub(super) fn take(count: usize, mut sample: impl FnMut() -> f64) -> Self {
        let mut samples: Vec<_> = (0..count.max(1)).map(|_| sample()).collect();
        samples.sort_by(f64::total_cmp);
        Self(samples)
    }

    /// The sample below which this share of all lies.
    pub(super) fn at(&self, percent: usize) -> f64 {
        self.0[(self.0.len() * percent / 100).min(self.0.len() - 1)]
    }
}
