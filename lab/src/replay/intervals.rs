//! Intervals of time, asked for those that overlap another one.

/// Intervals with something about each. A question takes time for those that overlap, and logarithmic time.
#[derive(Debug)]
pub struct Intervals<T> {
    /// By rising start.
    all: Vec<Interval<T>>,
    /// The latest end of each, then of every two neighbours, of every four, ... of all.
    latest_ns: Vec<Vec<u64>>,
}

/// What went on from its start to its end, nanoseconds, both among it.
#[derive(Clone, Debug)]
pub struct Interval<T> {
    /// Its start.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// What is said of it.
    pub what: T,
}

impl<T> Default for Intervals<T> {
    fn default() -> Self {
        Intervals { all: Vec::new(), latest_ns: Vec::new() }
    }
}

impl<T> Intervals<T> {
    /// These intervals.
    pub fn of(mut all: Vec<Interval<T>>) -> Intervals<T> {
        all.sort_by_key(|one| one.start_ns);
        let mut latest_ns: Vec<Vec<u64>> = vec![all.iter().map(|one| one.end_ns).collect()];
        while let Some(below) = latest_ns.last().filter(|below| below.len() > 1) {
            let above = below.chunks(2).map(|two| two.iter().copied().max().unwrap_or(0)).collect();
            latest_ns.push(above);
        }
        Intervals { all, latest_ns }
    }

    /// Whether any that overlaps the time from `start_ns` to `end_ns` is one that `is_meant`.
    pub fn any_in(&self, start_ns: u64, end_ns: u64, mut is_meant: impl FnMut(&T) -> bool) -> bool {
        let begun = self.all.partition_point(|one| one.start_ns <= end_ns);
        let mut open: Vec<(usize, usize)> = Vec::new();
        if begun > 0 {
            open.push((self.latest_ns.len() - 1, 0));
        }
        while let Some((level, at)) = open.pop() {
            if at << level >= begun || self.latest_ns[level][at] < start_ns {
                continue;
            }
            if level == 0 {
                if is_meant(&self.all[at].what) {
                    return true;
                }
                continue;
            }
            let two = 2 * at..(2 * at + 2).min(self.latest_ns[level - 1].len());
            open.extend(two.map(|at| (level - 1, at)));
        }
        false
    }
}

#[cfg(test)]
#[path = "tests/intervals.rs"]
mod tests;
