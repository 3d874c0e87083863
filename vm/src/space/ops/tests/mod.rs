//! Tests of the operations.

mod mbind;
mod parallel;
mod refused;
