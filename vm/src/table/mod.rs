//! Floor 5: page tables.

pub mod format;
