//! Tests of faults: what they decide, and what each of their steps does.

mod attempt;
mod backing;
mod decide;
mod identity;
mod install;
mod kinds;
mod known_zero;
mod pool_copy;
