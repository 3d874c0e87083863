//! `fork`: a copy of the mappings and of the private pages.

use super::huge::Regions;
use super::mapping::{Anon, Mapping, VmFlags};
use super::{Model, Objects};
use crate::calls::Errno;
use crate::setting::InheritedZeroPages;

impl Model {
    /// The child's address space. Objects stay with their holders.
    pub(super) fn fork(&mut self) -> Result<Self, Errno> {
        let mut child = self.clone();
        child.objects = Objects::default();
        child.mappings.retain(|mapping| !mapping.flags.contains(VmFlags::DONTFORK));
        for mapping in child.mappings.iter().filter(|mapping| mapping.flags.contains(VmFlags::ACCOUNT)) {
            self.commit(mapping.pages())?;
        }
        let (mappings, zero_pages) = (&child.mappings, self.setting.zero_pages);
        child
            .pages
            .retain(|&addr, _| mappings.at(addr).is_some_and(|mapping| is_copied(mapping, zero_pages)));
        self.fork_regions(&mut child, |mapping| is_copied(mapping, zero_pages));
        for mapping in child.mappings.iter_mut().filter(|mapping| mapping.anon.is_some()) {
            child.next_anon += 1;
            let inherited = Anon { number: child.next_anon, inherited: true };
            mapping.anon = Some(inherited).filter(|_| !mapping.flags.contains(VmFlags::WIPEONFORK));
        }
        Ok(child)
    }

    /// Removes all mappings that are not foreign, as the end of the process does.
    pub(super) fn end(&mut self) {
        let windows = self.setting.windows.clone();
        for window in windows {
            self.remove_range(window.start, window.end);
        }
        self.regions = Regions::default();
        debug_assert!(self.pages.is_empty(), "private pages lie in the windows");
    }
}

/// Whether the child gets the entries of a private mapping.
fn is_copied(mapping: &Mapping, zero_pages: InheritedZeroPages) -> bool {
    let is_wiped = mapping.flags.contains(VmFlags::WIPEONFORK);
    !mapping.is_shared()
        && !is_wiped
        && (mapping.anon.is_some() || zero_pages == InheritedZeroPages::Everywhere)
}
