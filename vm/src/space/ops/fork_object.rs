//! What a fork does with private mappings of objects.
//!
//! Pages of objects are not shared: the child's faults find them. Private copies are, by the sweep. A mapping
//! without a copy is not swept, as in Linux; but a thread of the parent may store there while the fork goes
//! on, which makes the first copy. Behind the sweep that would be a store that the child misses, though it
//! may have a later one. So such a mapping is *frozen*: it gets no identity, without which no copy is made,
//! until the fork has flushed. A fault that stores there waits for the end of the fork, as at a page that was
//! shared.
//!
//! ```text
//!   fork    freeze ── has no identity: skipped ───────────────► flush ─► thaw
//!              └── has one, or gets it first: swept, with the copy that is made under its table's lock
//! ```

use crate::machine::Machine;
use crate::space::RangeToken;
use crate::space::edit::Mappings;
use crate::space::fork_cursor::ForkUnderWay;
use crate::vma::{Backing, Vma, VmaAttributes};

impl<M: Machine> Mappings<'_, M> {
    /// Whether a private mapping may have memory of its own, which the child gets: else it is frozen.
    pub fn has_own_memory(&self, vma: &VmaAttributes, fork: &ForkUnderWay<'_, M::Cpu>) -> bool {
        if !matches!(vma.backing.get(), Backing::Object(_)) {
            return true;
        }
        let reading = self.vm.rcu.read();
        let is_frozen = match self.vmas.find(&reading, vma.range.start) {
            Some(found) if mutant!("fork.object-not-frozen") => found.anon().is_none(),
            Some(found) => found.freeze(),
            None => false,
        };
        if is_frozen {
            fork.note_frozen();
        }
        !is_frozen
    }

    /// Thaws the mappings that a fork has frozen.
    #[cold]
    pub fn thaw(&self, token: RangeToken<'_>) {
        let mut rest = self.all_pages();
        while let Some(vma) = self.first_in(token, rest) {
            rest.start = vma.range.end;
            if matches!(vma.backing.get(), Backing::Object(_)) {
                let reading = self.vm.rcu.read();
                self.vmas.find(&reading, vma.range.start).into_iter().for_each(Vma::thaw);
            }
        }
    }
}
