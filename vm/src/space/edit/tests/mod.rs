//! Tests of how writers edit a space.

mod deferral;
mod guard;
mod parallel_zap;
