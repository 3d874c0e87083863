//! What is counted, and what must add up: done, fallbacks and errors are all faults there were, by our count
//! and the library's.

use crate::error::Failure;
use hdrhistogram::Histogram;
use interleaf::space::{Counter, Fallback, FaultError, Outcome, Totals};
use std::time::Duration;

/// What a task is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It touches memory.
    Faults,
    /// It changes mappings.
    Maps,
}

/// Whether faults are timed one by one, which costs two readings of the clock each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// They are not.
    None,
    /// They are.
    EachFault,
}

/// What one task counted, or all of them.
#[derive(Clone, Debug)]
pub struct TaskCounts {
    /// What the task is for.
    pub role: Role,
    /// Faults resolved without the space's lock.
    pub speculated: u64,
    /// Faults resolved with the mapping locked.
    pub vma_locked: u64,
    /// Faults resolved under the space's lock, because all faults of the space are.
    pub locked: u64,
    /// Faults resolved under the lock after an attempt without it gave up, in the order of [`Fallback::ALL`].
    pub fell_back: [u64; Fallback::ALL.len()],
    /// Faults that ended with a signal.
    pub errors: u64,
    /// Calls that change mappings or contents.
    pub calls: u64,
    /// Rounds.
    pub rounds: u64,
    /// How long the task was at it.
    pub busy: Duration,
    latency: Option<Histogram<u64>>,
}

/// The longest fault time that the histogram distinguishes from longer ones.
const LONGEST_NS: u64 = 60_000_000_000;

impl TaskCounts {
    /// Nothing yet.
    pub fn new(timing: Timing) -> Self {
        let three_digits = || Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are sound");
        Self {
            role: Role::Faults,
            speculated: 0,
            vma_locked: 0,
            locked: 0,
            fell_back: [0; Fallback::ALL.len()],
            errors: 0,
            calls: 0,
            rounds: 0,
            busy: Duration::ZERO,
            latency: (timing == Timing::EachFault).then(three_digits),
        }
    }

    /// Counts a fault by its end.
    #[inline]
    pub fn count(&mut self, outcome: Result<Outcome, FaultError>) {
        match outcome {
            Ok(Outcome::Speculated) => self.speculated += 1,
            Ok(Outcome::VmaLocked) => self.vma_locked += 1,
            Ok(Outcome::Locked) => self.locked += 1,
            Ok(Outcome::FellBack(reason)) => self.fell_back[place(reason)] += 1,
            Err(_) => self.errors += 1,
        }
    }

    /// Notes how long a fault took.
    #[inline]
    pub fn took(&mut self, time: Duration) {
        if let Some(latency) = &mut self.latency {
            latency.saturating_record(time.as_nanos() as u64);
        }
    }

    /// How long faults took, where they were timed.
    pub fn latency(&self) -> Option<&Histogram<u64>> {
        self.latency.as_ref()
    }

    /// All faults.
    pub fn faults(&self) -> u64 {
        let fell_back: u64 = self.fell_back.iter().sum();
        self.speculated + self.vma_locked + self.locked + fell_back + self.errors
    }

    /// Faults for each second that the task was at it.
    pub fn faults_per_second(&self) -> f64 {
        let seconds = self.busy.as_secs_f64();
        if seconds > 0.0 { self.faults() as f64 / seconds } else { 0.0 }
    }

    /// Adds what another task counted; times are that of the longest.
    pub fn add(&mut self, other: &TaskCounts) {
        self.speculated += other.speculated;
        self.vma_locked += other.vma_locked;
        self.locked += other.locked;
        self.fell_back.iter_mut().zip(other.fell_back).for_each(|(sum, count)| *sum += count);
        self.errors += other.errors;
        self.calls += other.calls;
        self.rounds += other.rounds;
        self.busy = self.busy.max(other.busy);
        if let (Some(sum), Some(latency)) = (&mut self.latency, &other.latency) {
            sum.add(latency).expect("histograms of the same bounds");
        }
    }

    /// Holds our count against the library's, `counted` meanwhile.
    ///
    /// # Errors
    /// Says which two numbers differ.
    pub fn check(&self, counted: &Totals) -> Result<(), Failure> {
        let agree = |what: &str, ours: u64, counter: Counter| {
            let theirs = counted.get(counter);
            let differ = format!("{what}: {ours} seen, but {} counted {theirs}", counter.name());
            if ours == theirs { Ok(()) } else { Err(Failure::check(differ)) }
        };
        agree("faults", self.faults(), Counter::PgFault)?;
        agree("speculated", self.speculated, Counter::SpeculativePgFault)?;
        agree("with the mapping locked", self.vma_locked, Counter::VmaLockSuccess)?;
        agree("errors", self.errors, Counter::PgFaultError)?;
        if self.errors > 0 {
            // A fault that ended with a signal may have fallen back before, for a reason that only the
            // library counted.
            return Ok(());
        }
        let reasons = Fallback::ALL.into_iter().zip(self.fell_back);
        reasons.into_iter().try_for_each(|(reason, ours)| agree("fallbacks", ours, reason.counter()))
    }
}

/// Where a reason stands in [`Fallback::ALL`].
fn place(reason: Fallback) -> usize {
    Fallback::ALL.iter().position(|&known| known == reason).expect("ALL names all reasons")
}

#[cfg(test)]
#[path = "tests/counts.rs"]
mod tests;
