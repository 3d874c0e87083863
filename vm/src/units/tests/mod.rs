//! Tests of the floor. Those of sets of CPUs are declared in `cpu`.

mod odd;
