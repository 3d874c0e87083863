//! What a machine is made of.

use super::Fill;
use interleaf::units::{Pfn, PfnRange};

/// What a machine is made of.
#[derive(Clone, Debug)]
pub struct MachineConfig {
    /// Number of CPUs, 1 to 4 096.
    pub nr_cpus: u32,
    /// Where there is memory.
    pub regions: Vec<PfnRange>,
    /// What memory holds at first.
    pub fill: Fill,
}

impl MachineConfig {
    /// Dirty memory of `frames` frames from physical address 1 MiB, and `nr_cpus` CPUs.
    pub fn small(nr_cpus: u32, frames: u64) -> Self {
        let first = Pfn(256);
        Self { nr_cpus, regions: vec![PfnRange::new(first, first.add(frames))], fill: Fill::Dirty }
    }
}
