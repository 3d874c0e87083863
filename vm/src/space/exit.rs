//! The end of a space.

use super::AddressSpace;
use super::edit::Editor;
use crate::frame::Init;
use crate::machine::Machine;
use crate::units::{Vpn, VpnRange};

impl<M: Machine> AddressSpace<'_, M> {
    /// Unmaps everything. No CPU runs the space any more (protocol P7: the mask is empty before the first
    /// frame returns).
    fn tear_down(&mut self) {
        debug_assert!(self.runs_nowhere(), "a space ends while CPUs run it");
        let all = VpnRange::new(Vpn(0), self.layout.areas.user.end);
        let alone = self.lock.0.lock();
        self.clear_with_helpers(&alone, all);
        let emptied = Editor::new(self, &alone).replace(all, &[], all);
        debug_assert!(emptied.is_ok(), "emptying the index takes no memory");
        self.zap_and_cut(&alone, all, [None; 2]);
        drop(alone);
        let memory = &self.vm.memory;
        if memory.meta(self.root()).is_some_and(|meta| meta.detach()) {
            memory.free_table(self.root(), Init::Dirty);
        }
    }
}

impl<M: Machine> Drop for AddressSpace<'_, M> {
    fn drop(&mut self) {
        self.tear_down();
    }
}
