//! The files of a trace, each by a number: what a mapping shows, wherever and by whichever process it was
//! mapped.
//!
//! A file is its device, its inode and its base name. Traces of format 1 have device and inode in maps alone;
//! a call has the path, which the maps of the same trace may say more of. What lies on a device, and what the
//! kernel makes by itself, is no file here: anonymous memory stands in for it.

use crate::trace::{Call, Event, Header, Image, Kind, Mapping, Sys};
use interleaf_linux_abi::MapFlags;
use std::collections::HashMap;

/// The number of a file of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNr(pub u32);

/// Where the pages of a file live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// On a disk: its pages are written back, and a store to a clean page of a shared mapping is a fault.
    Disk,
    /// In memory alone: memfd, and files of a tmpfs that are known to be ones.
    Memory,
}

/// The files of a trace.
#[derive(Clone, Debug, Default)]
pub struct FileTable {
    kinds: Vec<FileKind>,
    by_identity: HashMap<Identity, FileNr>,
    /// What maps say of the file of a path.
    by_path: HashMap<String, Identity>,
}

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity {
    /// Device, inode, base name.
    Inode(String, u64, String),
    /// A path of which no map says more.
    Path(String),
}

impl FileTable {
    /// Those of a trace.
    pub fn of(header: &Header, events: &[Event]) -> FileTable {
        let mut table = FileTable::default();
        table.note_image(&header.image);
        for event in events {
            match &event.kind {
                Kind::Exec(started) => table.note_image(&started.image),
                Kind::Exit(ended) => ended.image.iter().for_each(|image| table.note_image(image)),
                _ => {}
            }
        }
        for event in events {
            if let Kind::Call(call) = &event.kind
                && let Some((kind, identity)) = table.identity_of_call(call)
            {
                table.number(kind, identity);
            }
        }
        table
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Where the pages of a file live.
    pub fn kind(&self, file: FileNr) -> FileKind {
        self.kinds[file.0 as usize]
    }

    /// The file that a granted call mapped; `None` where it was none.
    pub fn of_call(&self, call: &Call) -> Option<FileNr> {
        let (_, identity) = self.identity_of_call(call)?;
        self.by_identity.get(&identity).copied()
    }

    /// The file of a mapping at exec; `None` where it is none.
    pub fn of_mapping(&self, mapping: &Mapping) -> Option<FileNr> {
        let (_, identity) = identity_of_mapping(mapping)?;
        self.by_identity.get(&identity).copied()
    }

    fn note_image(&mut self, image: &Image) {
        for mapping in &image.mappings {
            if let Some((kind, identity)) = identity_of_mapping(mapping) {
                self.by_path.entry(path_of(&mapping.name).to_string()).or_insert_with(|| identity.clone());
                self.number(kind, identity);
            }
        }
    }

    fn number(&mut self, kind: FileKind, identity: Identity) {
        let next = FileNr(self.kinds.len() as u32);
        if *self.by_identity.entry(identity).or_insert(next) == next {
            self.kinds.push(kind);
        }
    }

    fn identity_of_call(&self, call: &Call) -> Option<(FileKind, Identity)> {
        let flags = MapFlags::from_bits_retain(call.args[3] as u32);
        let is_mapped = call.sys == Sys::Mmap && !flags.contains(MapFlags::ANONYMOUS);
        let name = call.file.as_ref().filter(|_| is_mapped && call.result.is_some_and(|at| at >= 0))?;
        let path = path_of(name);
        let kind = kind_of(name)?;
        let known = self.by_path.get(path).cloned();
        Some((kind, known.unwrap_or_else(|| Identity::Path(path.to_string()))))
    }
}

fn identity_of_mapping(mapping: &Mapping) -> Option<(FileKind, Identity)> {
    let kind = kind_of(&mapping.name).filter(|_| mapping.inode != 0)?;
    let path = path_of(&mapping.name);
    let base = path.rsplit('/').next().unwrap_or(path).to_string();
    Some((kind, Identity::Inode(mapping.device.clone(), mapping.inode, base)))
}

/// The path without Linux's word for a file that has no name any more.
fn path_of(name: &str) -> &str {
    name.strip_suffix(" (deleted)").unwrap_or(name)
}

/// Where the pages of the file of this name live; `None` for what is no regular file: devices, files that the
/// kernel makes up, huge pages of the pool, System V memory.
fn kind_of(name: &str) -> Option<FileKind> {
    const IN_MEMORY: [&str; 2] = ["/memfd:", "/dev/shm/"];
    const NO_FILES: [&str; 6] = ["/dev/", "/proc/", "/sys/", "/anon_hugepage", "/SYSV", "/[aio]"];
    let begins = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    match () {
        () if begins(&IN_MEMORY) => Some(FileKind::Memory),
        () if begins(&NO_FILES) || !name.starts_with('/') => None,
        () => Some(FileKind::Disk),
    }
}

#[cfg(test)]
#[path = "tests/files.rs"]
mod tests;
