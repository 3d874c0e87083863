//! `interleaf predict`: builds `interleaf-predict` and runs it with the same words.
//!
//! What predicts is a program of its own, as `interleaf-check` is: it compiles the library for one more
//! machine.

use super::Words;
use crate::error::Failure;
use crate::measure::checked::PREDICT;

/// The arguments of `interleaf predict`.
pub type Args = Words;

/// Builds the program, says so where that takes long, and becomes it.
pub fn run(args: Args) -> Result<(), Failure> {
    Err(PREDICT.exec(args.words))
}
