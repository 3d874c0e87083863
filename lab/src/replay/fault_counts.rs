//! What page faults came to: done, fallen back for a reason, or an error. The three add up to all.

use interleaf::space::{Fallback, FaultError, Outcome};
use serde::Serialize;
use std::cell::Cell;
use std::ops::AddAssign;

/// Counts under way, by the one thread that plays.
#[derive(Debug, Default)]
pub struct FaultCounts {
    speculated: Cell<u64>,
    vma_locked: Cell<u64>,
    locked: Cell<u64>,
    fell_back: [Cell<u64>; Fallback::ALL.len()],
    errors: Cell<u64>,
    stack_growths: Cell<u64>,
}

/// What page faults came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Faults {
    /// Page faults that the library was asked to resolve.
    pub raised: u64,
    /// Resolved without the space's lock.
    pub speculated: u64,
    /// Resolved with the mapping locked.
    pub vma_locked: u64,
    /// Resolved under the space's lock, because all faults of the space are.
    pub locked: u64,
    /// Resolved under the space's lock after an attempt without it gave up: how often for each reason.
    pub fell_back: Vec<(&'static str, u64)>,
    /// Ended in a signal.
    pub errors: u64,
    /// Of the errors, those after which the stack grew.
    pub stack_growths: u64,
}

fn add_one(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}

impl FaultCounts {
    /// Counts how a fault ended.
    #[inline]
    pub fn count(&self, done: Result<Outcome, FaultError>) {
        match done {
            Ok(Outcome::Speculated) => add_one(&self.speculated),
            Ok(Outcome::VmaLocked) => add_one(&self.vma_locked),
            Ok(Outcome::Locked) => add_one(&self.locked),
            Ok(Outcome::FellBack(reason)) => add_one(&self.fell_back[reason as usize]),
            Err(_) => add_one(&self.errors),
        }
    }

    /// Counts that the stack grew.
    pub fn grew(&self) {
        add_one(&self.stack_growths);
    }

    /// How often the stack grew so far.
    pub fn growths(&self) -> u64 {
        self.stack_growths.get()
    }

    /// How many faults were counted so far.
    pub fn raised(&self) -> u64 {
        let fell_back: u64 = self.fell_back.iter().map(Cell::get).sum();
        let done = self.speculated.get() + self.vma_locked.get() + self.locked.get();
        done + fell_back + self.errors.get()
    }

    /// The counts.
    pub fn faults(&self) -> Faults {
        let reasons = Fallback::ALL.iter().zip(&self.fell_back);
        Faults {
            raised: self.raised(),
            speculated: self.speculated.get(),
            vma_locked: self.vma_locked.get(),
            locked: self.locked.get(),
            fell_back: reasons.map(|(reason, count)| (reason.counter().name(), count.get())).collect(),
            errors: self.errors.get(),
            stack_growths: self.stack_growths.get(),
        }
    }
}

impl AddAssign<&Faults> for Faults {
    fn add_assign(&mut self, other: &Faults) {
        self.raised += other.raised;
        self.speculated += other.speculated;
        self.vma_locked += other.vma_locked;
        self.locked += other.locked;
        self.errors += other.errors;
        self.stack_growths += other.stack_growths;
        if self.fell_back.is_empty() {
            self.fell_back = other.fell_back.iter().map(|(name, _)| (*name, 0)).collect();
        }
        self.fell_back.iter_mut().zip(&other.fell_back).for_each(|((_, sum), (_, count))| *sum += count);
    }
}
