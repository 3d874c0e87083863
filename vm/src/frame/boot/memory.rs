//! Boot memory: a boot map's usable regions, once the machine has given them.

use super::map::BootPiece;
use super::{BootError, BootMap, Region};
use crate::machine::{Cpu, Machine};
use crate::units::{CpuWords, PfnRange};

/// The usable memory of a boot map, claimed from a machine: the one owner of it.
///
/// A [`BootMap`] is a description, which can be copied or made up; this is the memory. It is claimed for as
/// long as the machine is borrowed: what is allocated from it early lives that long, so the claim does not
/// end with this value, nor with the [`Memory`](crate::frame::Memory) that is made of it.
#[derive(Debug)]
pub struct BootMemory<'m, M> {
    machine: &'m M,
    map: BootMap,
    /// Allocations until one fails that is to; no longer counted after it.
    #[cfg(test)]
    allocations_to_mishap: Option<u32>,
}

impl BootMap {
    /// Claims the usable regions from `machine`.
    ///
    /// # Errors
    /// [`BootError::TooManyCpus`] where the machine has more CPUs than its
    /// [`Cpu::CpuWords`] can name; [`BootError::NotFree`] where it refuses the memory.
    /// Nothing has been claimed then.
    pub fn claim<M: Machine>(self, machine: &M) -> Result<BootMemory<'_, M>, BootError> {
        if machine.nr_cpus() > <M::Cpu as Cpu>::CpuWords::MAX_CPUS {
            return Err(BootError::TooManyCpus);
        }
        let (mut frames, mut len) = ([PfnRange::default(); Self::MAX_REGIONS], 0);
        for (region, _) in self.usable() {
            frames[len] = region.frames();
            len += 1;
        }
        let is_ours = machine.claim_memory(&frames[..len]) || mutant!("boot.memory-not-claimed");
        let memory = BootMemory {
            machine,
            map: self,
            #[cfg(test)]
            allocations_to_mishap: None,
        };
        if is_ours { Ok(memory) } else { Err(BootError::NotFree) }
    }
}

impl<'m, M: Machine> BootMemory<'m, M> {
    /// The machine whose memory this is.
    pub fn machine(&self) -> &'m M {
        self.machine
    }

    /// What is left of the map.
    pub fn map(&self) -> &BootMap {
        &self.map
    }

    /// As [`BootMap::take_from_end`].
    pub(super) fn take_from_end(&mut self, bytes: usize, align: usize) -> Option<BootPiece> {
        self.may_allocate().then(|| self.map.take_from_end(bytes, align)).flatten()
    }

    /// As [`BootMap::take_piece`].
    pub(super) fn take_piece(
        &mut self,
        bytes: u64,
        align: (u64, u64),
        rank: impl Fn(&Region) -> u32,
    ) -> Option<BootPiece> {
        self.may_allocate().then(|| self.map.take_piece(bytes, align, rank)).flatten()
    }

    /// Makes the `nth` allocation of boot memory from now fail, 1 being the next.
    #[cfg(all(test, not(loom)))]
    pub(in crate::frame) fn plan_mishap(&mut self, nth: u32) {
        self.allocations_to_mishap = Some(nth);
    }

    /// False where an injected failure is due.
    fn may_allocate(&mut self) -> bool {
        #[cfg(test)]
        if let Some(left) = &mut self.allocations_to_mishap {
            *left = left.wrapping_sub(1);
            return *left != 0;
        }
        true
    }
}
