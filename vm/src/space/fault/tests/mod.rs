//! Tests of faults; the models run faults against unmap.

#[cfg(not(loom))]
mod attempt;
#[cfg(not(loom))]
mod decide;
#[cfg(not(loom))]
mod install;
#[cfg(loom)]
mod loom_fault;
#[cfg(loom)]
mod world;
