//! Tests of the operations.

mod map_pfn;
mod mbind;
mod parallel;
mod pin_range;
mod refused;
mod teardown;
