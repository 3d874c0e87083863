//! How long to measure, and where.

use crate::os::affinity::{self, AffinityGuard};

/// Options of a benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Small sizes, few pairs, no bar judged on time: for tests.
    pub small: bool,
    /// How many pairs to take for a ratio.
    pub pairs: usize,
    /// The seed of whatever is drawn by chance.
    pub seed: u64,
    /// The host CPUs that may be used, at least one.
    pub cpus: Vec<usize>,
    /// The figures that are asked for, where it is not all of them. A benchmark may leave out the others.
    pub only: Option<Vec<&'static str>>,
}

impl Options {
    /// The size whose figures count: 31 pairs.
    pub fn full() -> Options {
        let cpus = affinity::allowed().ok().filter(|cpus| !cpus.is_empty());
        Options { small: false, pairs: 31, seed: 1, cpus: cpus.unwrap_or_else(|| vec![0]), only: None }
    }

    /// The size that shows that a benchmark works: 5 pairs.
    pub fn small() -> Options {
        Options { small: true, pairs: 5, ..Options::full() }
    }

    /// Whether the figure is asked for.
    pub fn wants(&self, figure: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&figure))
    }

    /// One of two sizes.
    pub fn size<T>(&self, full: T, small: T) -> T {
        if self.small { small } else { full }
    }

    /// Keeps the calling thread on the first CPU until the guard is dropped, where the host allows it.
    /// Threads that it starts meanwhile stay there too unless they are pinned themselves, as those of
    /// [`pinned_threads`](super::bench::pinned_threads) are.
    pub fn pin(&self) -> Option<AffinityGuard> {
        affinity::pin(self.cpus[0]).ok()
    }
}
