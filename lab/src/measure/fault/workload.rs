//! A workload as a value.

use super::worker::Worker;
use crate::error::Failure;

/// What tasks do, as a value.
#[derive(Clone, Copy)]
pub struct Workload {
    /// What `interleaf fault` calls it.
    pub name: &'static str,
    /// What its tasks do, as a sentence.
    pub about: &'static str,
    /// The fewest tasks it makes sense with.
    pub least_threads: usize,
    /// Frames that a page takes which a task touches: its own, and where that is a copy, the one of its file.
    pub frames_of_page: u64,
    /// What one task does, from the start to the end.
    pub work: fn(&Worker<'_, '_>) -> Result<(), Failure>,
}
