//! Calls every public function of the library with hostile arguments.
//!
//! No unsafe code is here at all: what goes wrong is the library's fault. A call may panic with a message, or
//! answer with an error. It may not corrupt memory: after each floor everything is recounted.
//!
//! | module | holds |
//! |---|---|
//! | [`sources`] | the list of public functions, from the library's sources |
//! | [`mod@call`] | the macro that calls, notes the name, and catches a panic |
//! | [`odd`] | values at the edges of every type |
//! | [`world`] | machines that are abused, and the workload that shows that they still work |
//! | [`floors`] | the calls |
//!
//! `tests/every_function.rs` fails where a public function is not called; functions that macros make are
//! listed too. `cargo run -p interleaf-hostile --example list` prints the list. What types forbid is shown by
//! `compile_fail` tests in the library's documentation.
#![forbid(unsafe_code)]

pub mod call;
pub mod floors;
pub mod odd;
pub mod sources;
pub mod world;
