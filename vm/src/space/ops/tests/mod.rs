//! Tests of the operations.

mod map_given;
mod mbind;
mod parallel;
mod refused;
mod teardown;
