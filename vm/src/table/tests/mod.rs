//! Tests of the floor. Walks and sweeps are tested through `space`, which has mappings to show them.

mod format;
mod sweep;
