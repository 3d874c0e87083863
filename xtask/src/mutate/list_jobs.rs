//! The points of `work`: jobs, and where their callers and helpers meet.

use super::Mutation;

/// All of them. Their numbers follow those of `list`.
pub const ALL: &[Mutation] = &[];
