//! The traces of this repository, for experiments that need no file.

/// Python parses 45 modules in two threads: faults above all.
pub const PYTHON: &[u8] = include_bytes!("../../traces/python.trace");
/// SQLite builds a ledger: the smallest.
pub const SQLITE: &[u8] = include_bytes!("../../traces/sqlite.trace");
/// Four threads on an allocator: calls above all.
pub const CHURN: &[u8] = include_bytes!("../../traces/churn.trace");
