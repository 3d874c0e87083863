//! Tests of the floor. Those of sets of CPUs are declared in `cpu_mask`.

mod odd;
