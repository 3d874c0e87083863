//! Floor 3: work described as a value, cut into chunks, done by the caller and by helpers.
//!
//! A [`Job`] says *what*: a range, how it may be cut, how many may help and on which nodes, the function for a chunk, and what
//! undoes it. A [`Crew`] has the helpers; [`Crew::run`] returns when the job is done, or says why it is not.
//!
//! docs/design/jobs.md tells how, and when to use which kind of job.

mod crew;
#[cfg(all(test, loom))]
mod loom_tests;
mod plan;
mod run;
mod share;
#[cfg(all(test, not(loom)))]
mod tests;
mod undo;
mod value;

pub use crate::sync::board::Patience;
pub use crew::Crew;
pub use value::{Chunk, Failed, Job, Spent};
