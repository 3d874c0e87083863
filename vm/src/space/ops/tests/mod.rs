//! Tests of the operations.

mod map_given;
mod mbind;
mod parallel;
mod pin_range;
mod refused;
mod teardown;
