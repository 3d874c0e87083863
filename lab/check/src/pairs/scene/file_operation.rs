//! What a CPU does on a file.

/// What one CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOperation {
    /// A load of a contested page, with those around it.
    Load,
    /// A store to a contested page.
    Store,
    /// A load, then a store, to a contested page, with a right that comes later.
    Upgrade,
    /// A private store to the own page, and to a contested one.
    StorePrivate,
    /// The contested pages go, and come back as zeros.
    CutOff,
    /// The file becomes longer, and shorter in the middle of its last page.
    Extend,
    /// A hole of contested pages.
    PunchHole,
    /// MADV_REMOVE of contested pages.
    Remove,
    /// msync of all.
    Msync,
    /// A sync of the file.
    Sync,
    /// The file is read, and copied to the program's memory.
    ReadAt,
    /// The own page and a contested one are written.
    WriteAt,
    /// munmap of the second mapping.
    Unmap,
    /// mprotect of the second mapping, to reading and back.
    Protect,
    /// MADV_DONTNEED of all mappings.
    Discard,
    /// mmap of the file over the second mapping, at another page.
    MapOver,
    /// MADV_POPULATE_WRITE.
    Populate,
    /// A pin of the own page for a device that stores there.
    Pin,
    /// A fork, whose child stores to the own page.
    Fork,
}

impl FileOperation {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Load,
        Self::Store,
        Self::Upgrade,
        Self::StorePrivate,
        Self::CutOff,
        Self::Extend,
        Self::PunchHole,
        Self::Remove,
        Self::Msync,
        Self::Sync,
        Self::ReadAt,
        Self::WriteAt,
        Self::Unmap,
        Self::Protect,
        Self::Discard,
        Self::MapOver,
        Self::Populate,
        Self::Pin,
        Self::Fork,
    ];
}
