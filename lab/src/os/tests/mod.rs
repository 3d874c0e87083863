//! Tests of the door to the host.

mod fiber;
