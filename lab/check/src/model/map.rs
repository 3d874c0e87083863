//! `mmap` of anonymous memory.

use super::Model;
use super::mapping::{Mapping, Sides, VmFlags};
use crate::calls::{Errno, MapFlags, PAGE, Prot};

impl Model {
    /// Maps `len` bytes; answers where.
    pub(super) fn mmap(
        &mut self,
        hint: u64,
        len: u64,
        prot: Prot,
        mut flags: MapFlags,
    ) -> Result<u64, Errno> {
        if !flags.contains(MapFlags::ANONYMOUS) {
            return Err(Errno::EBADF);
        }
        if len == 0 {
            return Err(Errno::EINVAL);
        }
        let no_replace = flags.contains(MapFlags::FIXED_NOREPLACE);
        flags.set(MapFlags::FIXED, no_replace || flags.contains(MapFlags::FIXED));
        let hint = if flags.contains(MapFlags::FIXED) { hint } else { self.raise_hint(hint) };
        let len = len.checked_next_multiple_of(PAGE).ok_or(Errno::ENOMEM)?;
        if self.mappings.len() > self.most_mappings() {
            return Err(Errno::ENOMEM);
        }
        let addr = self.place(hint, len, flags)?;
        if no_replace && !self.mappings.is_free(&(addr..addr + len)) {
            return Err(Errno::EEXIST);
        }
        let vm_flags = vm_flags(prot, flags)?;
        self.map_region(addr, addr + len, vm_flags, None)?;
        if flags & (MapFlags::POPULATE | MapFlags::NONBLOCK) == MapFlags::POPULATE {
            self.populate_quietly(addr, addr + len);
        }
        Ok(addr)
    }

    /// Maps the file from a byte on, at a fixed place.
    pub(super) fn mmap_file(
        &mut self,
        addr: u64,
        len: u64,
        prot: Prot,
        flags: MapFlags,
        offset: u64,
    ) -> Result<u64, Errno> {
        if !offset.is_multiple_of(PAGE) || len == 0 || !flags.contains(MapFlags::FIXED) {
            return Err(Errno::EINVAL);
        }
        let len = len.checked_next_multiple_of(PAGE).ok_or(Errno::ENOMEM)?;
        if self.mappings.len() > self.most_mappings() {
            return Err(Errno::ENOMEM);
        }
        let addr = self.place(addr, len, flags)?;
        let vm_flags = vm_flags(prot, flags)?;
        let file = self.objects.file();
        self.map_region(addr, addr + len, vm_flags, Some((file, offset / PAGE)))?;
        if flags & (MapFlags::POPULATE | MapFlags::NONBLOCK) == MapFlags::POPULATE {
            self.populate_quietly(addr, addr + len);
        }
        Ok(addr)
    }

    /// A hint below what may be mapped means the first page that may.
    fn raise_hint(&self, hint: u64) -> u64 {
        let hint = hint / PAGE * PAGE;
        if hint == 0 { 0 } else { hint.max(self.setting.min_addr.next_multiple_of(PAGE)) }
    }

    /// Replaces whatever lies in `[start, end)` by a new mapping, which joins neighbours that agree; `shown`
    /// is the object that it shows, and the page of it that comes first.
    fn map_region(
        &mut self,
        start: u64,
        end: u64,
        mut flags: VmFlags,
        shown: Option<(u32, u64)>,
    ) -> Result<(), Errno> {
        // The ends are split before anything can fail, and stay split if it does.
        self.cut_out(start, end)?;
        let pages = (end - start) / PAGE;
        if flags.contains(VmFlags::WRITE) && !flags.intersects(VmFlags::SHARED | VmFlags::NORESERVE) {
            self.commit(pages - self.accounted_pages(start, end))?;
            flags |= VmFlags::ACCOUNT;
        }
        self.remove_range(start, end);
        self.free_tables(&(start..end));
        let (object, offset) = shown.map_or((None, start / PAGE), |(object, page)| (Some(object), page));
        let mut new = Mapping { start, end, flags, object, offset, anon: None, policy: None };
        if flags.contains(VmFlags::SHARED) && shown.is_none() {
            // The new object commits its memory after the old mappings were removed.
            if !flags.contains(VmFlags::NORESERVE) {
                self.commit(pages)?;
            }
            let object = self.new_object();
            self.objects.lengths.insert(object, pages);
            (new.object, new.offset) = (Some(object), 0);
        }
        self.mappings.insert_merged(new, Sides::Both);
        Ok(())
    }

    /// Pages of `[start, end)` that count as committed.
    fn accounted_pages(&self, start: u64, end: u64) -> u64 {
        let inside = self.mappings.iter().filter(|mapping| mapping.start >= start && mapping.end <= end);
        inside.filter(|mapping| mapping.flags.contains(VmFlags::ACCOUNT)).map(Mapping::pages).sum()
    }
}

/// The flags of a new mapping; refuses all kinds but shared and private.
fn vm_flags(prot: Prot, flags: MapFlags) -> Result<VmFlags, Errno> {
    let kind = match flags.bits() & 0xf {
        1 => VmFlags::SHARED,
        2 => VmFlags::empty(),
        _ => return Err(Errno::EINVAL),
    };
    let mut result = VmFlags::rights(prot) | kind;
    result.set(VmFlags::NORESERVE, flags.contains(MapFlags::NORESERVE));
    result.set(VmFlags::NOHUGEPAGE, flags.contains(MapFlags::STACK));
    Ok(result)
}
