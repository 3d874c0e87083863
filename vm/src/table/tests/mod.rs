//! Tests of the floor. Walks and sweeps are tested through `space`, which has the mappings for them.

mod format;
mod sweep;
