//! Tests of jobs, of ordered queues, and of how helpers find them.

#[cfg(not(loom))]
mod jobs;
#[cfg(loom)]
mod loom_jobs;
#[cfg(not(loom))]
mod ordered;
#[cfg(not(loom))]
pub(crate) mod preempted;
