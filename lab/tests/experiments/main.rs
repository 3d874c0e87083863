//! Whole experiments, small. Here and not in the library, whose own tests would need a second build of every
//! experiment.

mod benchmarks;
mod teardown;
mod tour;
