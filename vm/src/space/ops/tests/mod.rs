//! Tests of the operations.

mod mbind;
mod parallel;
