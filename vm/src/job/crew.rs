//! The helpers of a machine.

use super::value::{Chunk, Failed, Job, Spent};
use crate::machine::{Cpu, Machine};
use core::fmt;

/// The helpers of a machine, as far as there are any.
pub struct Crew<'m, M: Machine> {
    machine: &'m M,
}

impl<'m, M: Machine> Crew<'m, M> {
    /// A crew without helpers: callers do their jobs alone.
    pub fn alone(machine: &'m M) -> Self {
        Self { machine }
    }

    /// The machine.
    pub fn machine(&self) -> &'m M {
        self.machine
    }

    /// Does the job; the caller works too. Returns when the whole range is done, or when nobody works on it any more and what was
    /// done is undone (where the job says how).
    ///
    /// The caller may sleep: it holds no spin lock and is in no RCU read section. Chunks may run jobs of their own.
    ///
    /// # Errors
    /// Why the job is not done. A panic of the caller's own chunk goes on through this call, after the undoing.
    pub fn run<E: Send, W>(&self, job: &Job<'_, W>) -> Result<Spent, Failed<E>>
    where
        W: Fn(&Chunk<'_>) -> Result<(), E> + Sync,
    {
        let (range, mut at) = (&job.range, job.range.start);
        let least = job.min_chunk.checked_next_multiple_of(job.align).unwrap_or(u64::MAX);
        let mut failed = None;
        while at < range.end && failed.is_none() {
            if job.stop_if.is_some_and(|stop| stop()) {
                failed = Some(Failed::Cancelled);
                break;
            }
            let end = (at - at % job.align).saturating_add(least).min(range.end);
            let chunk = Chunk::new(at..end, 0, &|| false);
            match (job.work)(&chunk) {
                Ok(()) => at = end,
                Err(error) => (at, failed) = (chunk.done(), Some(Failed::Error(error))),
            }
            M::Cpu::relax();
        }
        let Some(failed) = failed else { return Ok(Spent::default()) };
        if let Some(undo) = job.undo
            && at > range.start
        {
            undo(range.start..at);
        }
        Err(failed)
    }
}

impl<M: Machine> fmt::Debug for Crew<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Crew")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::machine::testing::TestMachine;
    use std::sync::Mutex;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn a_job_without_helpers_is_done_by_its_caller_and_undone_up_to_the_error() {
        let machine = TestMachine::new(1);
        let (crew, done, undone) = (Crew::alone(&machine), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        let job = Job::new(3..40, |chunk: &Chunk<'_>| {
            done.lock().unwrap().push(chunk.range());
            if chunk.end < 40 { Ok(()) } else { Err("the end") }
        });
        let job = job.align(8).min_chunk(9);
        assert_eq!(crew.run(&job), Err(Failed::Error("the end")));
        let undo = |range| undone.lock().unwrap().push(range);
        assert_eq!(crew.run(&job.undo(&undo)), Err(Failed::Error("the end")));
        assert_eq!(*done.lock().unwrap(), [3..16, 16..32, 32..40, 3..16, 16..32, 32..40]);
        assert_eq!(*undone.lock().unwrap(), vec![3..32]);
    }

    #[test]
    fn an_empty_job_does_nothing() {
        let machine = TestMachine::new(1);
        let job = Job::new(5..5, |_: &Chunk<'_>| Err(()));
        assert_eq!(Crew::alone(&machine).run(&job), Ok(Spent::default()));
    }
}
