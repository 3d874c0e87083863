//! The library against the obvious model, and each allocation failing in turn.

mod huge;
mod huge_sizes;
mod library;
mod mishap;
mod processes;
mod spaces;
