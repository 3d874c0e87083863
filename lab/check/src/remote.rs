//! Copies from and to a space by others: what the host's Linux and the library answer, in one sequence with
//! the space's own calls.

use super::calls::{Call, PAGE};
use super::drive::Driver;
use super::library::{Library, fill, layout_of};
use super::oracle::{Oracle, step};
use super::recount::QuiescentSystem;
use interleaf::machine::Format;
use interleaf::space::{AddressSpace, Vm};
use interleaf::units::{CpuId, VirtAddr};
use interleaf_lab::machine::soft::boot_map;
use std::io::Result;

/// A step of such a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteStep {
    /// A call of the program, or its access.
    Call(Call),
    /// Another process loads bytes: process_vm_readv(2).
    Load {
        /// The first.
        addr: u64,
        /// How many.
        len: usize,
    },
    /// Another process stores bytes, all the same.
    Store {
        /// The first.
        addr: u64,
        /// How many.
        len: usize,
        /// What.
        byte: u8,
        /// Whether as a debugger does: through /proc/pid/mem.
        forced: bool,
    },
}

/// The bytes that were copied before the first page that refused; `None` where that was the first one. Of
/// calls, nothing.
pub type RemoteAnswer = Option<Vec<u8>>;

impl Oracle {
    /// Carries out steps on emptied windows, none of them a call that wants scratch memory.
    ///
    /// # Errors
    /// Where the process died of them.
    pub fn remote(&mut self, steps: &[RemoteStep]) -> Result<Vec<RemoteAnswer>> {
        self.results(&[])?;
        let mut answers = Vec::new();
        for one in steps {
            answers.push(match *one {
                RemoteStep::Call(call) => {
                    self.child.run(0, &[step(&call, 0)])?;
                    None
                }
                RemoteStep::Load { addr, len } => {
                    let mut bytes = vec![0xee; len];
                    let done = self.child.load(0, addr, &mut bytes).ok();
                    done.map(|done| bytes[..done].to_vec())
                }
                RemoteStep::Store { addr, len, byte, forced } => {
                    let bytes = vec![byte; len];
                    let store = if forced {
                        self.child.store_forced(0, addr, &bytes)
                    } else {
                        self.child.store(0, addr, &bytes)
                    };
                    store.ok().map(|done| vec![byte; done])
                }
            });
        }
        Ok(answers)
    }
}

impl<F: Format> Library<F> {
    /// Carries out steps on a space of their own, and recounts everything after each copy.
    ///
    /// # Panics
    /// Where something does not add up.
    pub fn remote(&mut self, steps: &[RemoteStep]) -> Vec<RemoteAnswer> {
        self.machine.unclaim_memory();
        let _cpu = self.machine.enter(CpuId(0));
        let vm = Vm::new(&self.machine, boot_map(&self.machine)).expect("the machine has memory");
        let space = AddressSpace::new(&vm, layout_of(&self.setting), self.path).expect("there is memory");
        fill(&self.setting, &space);
        let _running = space.activate(None);
        let driver = Driver { machine: &self.machine, space: &space };
        let system = QuiescentSystem { machine: &self.machine, vm: &vm, spaces: &[&space], path: self.path };
        let answer = |one: &RemoteStep| match *one {
            RemoteStep::Call(call) => {
                driver.call(&call);
                None
            }
            RemoteStep::Load { addr, len } => {
                let mut bytes = vec![0xee; len];
                let done = space.copy_from(VirtAddr(addr), &mut bytes).ok();
                system.must_hold();
                done.map(|done| bytes[..done].to_vec())
            }
            RemoteStep::Store { addr, len, byte, forced } => {
                let (addr, bytes) = (VirtAddr(addr), vec![byte; len]);
                let store =
                    if forced { space.copy_to_forced(addr, &bytes) } else { space.copy_to(addr, &bytes) };
                system.must_hold();
                store.ok().map(|done| vec![byte; done])
            }
        };
        let answers = steps.iter().map(answer).collect();
        let zero = vm.memory().zero_frame();
        let mut bytes = vec![0; PAGE as usize];
        self.machine.read(zero, 0, &mut bytes);
        assert!(bytes.iter().all(|&byte| byte == 0), "the zero page was written");
        answers
    }
}
