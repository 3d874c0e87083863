//! Tests of how writers edit a space.

mod guard;
mod parallel_zap;
