//! What a run did.

use super::lines::Transfers;
use super::profile::Ps;
use super::waits::Wait;

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Accesses through the door, and by programs; those of wait loops that were left out included.
    pub accesses: u64,
    /// Times that another CPU went on.
    pub switches: u64,
    /// Rounds of wait loops.
    pub rounds: u64,
    /// Times that a CPU went to sleep.
    pub sleeps: u64,
    /// Interrupts sent, counted once for each target.
    pub interrupts: u64,
    /// Pages that were zeroed or copied to, in the caches of the CPU that did so.
    pub pages_warm: u64,
    /// The same, elsewhere.
    pub pages_cold: u64,
    /// How accesses got their lines.
    pub transfers: Transfers,
    /// Lines that were touched.
    pub lines: usize,
    /// When each CPU's program ended.
    pub ended: Vec<Ps>,
    /// How long each CPU was measured.
    pub measured: Vec<Ps>,
    /// How long measured CPUs queued for the memory bandwidth of their nodes.
    pub bandwidth_queued: Ps,
    /// What measured CPUs waited for, by line and place.
    pub waits: Vec<Wait>,
    /// A number that two runs share if all CPUs accessed the same at the same times.
    pub fingerprint: u64,
}
