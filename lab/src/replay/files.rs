//! The files of a trace, each by a number: what a mapping shows, wherever and by whichever process it was
//! mapped.
//!
//! A file is its device, its inode and its base name. Traces of format 1 have device and inode in maps alone;
//! a call has the path, which the maps of the same trace may say more of. What lies on a device, and what the
//! kernel makes by itself, is no file here: anonymous memory stands in for it.
//!
//! Traces of format 2 have more of most: the length when it was first mapped, whether it lives in memory, and
//! what the page cache had of it.

use super::page_history::PageHistory;
use crate::trace::{Cached, Call, Event, FileFacts, Header, Image, Inode, Kind, Mapping, Sys};
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
    files: Vec<File>,
    by_identity: HashMap<Identity, FileNr>,
    /// What maps say of the file of a path.
    by_path: HashMap<String, Identity>,
    /// All of an inode: it may have several base names.
    by_inode: HashMap<Inode, Vec<FileNr>>,
    is_cache_followed: bool,
    /// Of faults that read pages in, by thread and instant: when the last of them had come.
    read_in: HashMap<(u32, u64), u64>,
}

/// What is known of a file.
#[derive(Clone, Debug)]
struct File {
    kind: FileKind,
    len_bytes: Option<u64>,
    cached: PageHistory,
}

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity {
    /// Device, inode, base name.
    Inode(Inode, String),
    /// A path of which no map says more.
    Path(String),
}

impl FileTable {
    /// Those of a trace.
    pub fn of(header: &Header, events: &[Event]) -> FileTable {
        let mut table = FileTable { is_cache_followed: header.page_cache, ..FileTable::default() };
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
        events.iter().for_each(|event| table.note_facts(event));
        table.note_faults(events);
        table
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Where the pages of a file live.
    pub fn kind(&self, file: FileNr) -> FileKind {
        self.files[file.0 as usize].kind
    }

    /// The length of a file when it was first mapped, bytes; `None` where the trace does not have it.
    pub fn len_bytes(&self, file: FileNr) -> Option<u64> {
        self.files[file.0 as usize].len_bytes
    }

    /// Whether the trace says what the page cache had.
    pub fn is_cache_followed(&self) -> bool {
        self.is_cache_followed
    }

    /// When the page cache had what a fault of a thread met. A fault that has to read pages in is taken again
    /// once they have come.
    pub fn met_ns(&self, tid: u32, time_ns: u64) -> u64 {
        self.read_in.get(&(tid, time_ns)).copied().unwrap_or(time_ns)
    }

    /// Whether the page cache had a page of a file at an instant, as far as the trace says so.
    pub fn has_cached(&self, file: FileNr, page: u64, time_ns: u64) -> bool {
        self.is_cache_followed && self.files[file.0 as usize].cached.has(page, time_ns)
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
        let next = FileNr(self.files.len() as u32);
        let inode = match &identity {
            Identity::Inode(inode, _) => Some(*inode),
            Identity::Path(_) => None,
        };
        if *self.by_identity.entry(identity).or_insert(next) == next {
            self.files.push(File { kind, len_bytes: None, cached: PageHistory::default() });
            inode.into_iter().for_each(|inode| self.by_inode.entry(inode).or_default().push(next));
        }
    }

    /// Notes the faults in which pages came: those that their threads added before they did anything else.
    fn note_faults(&mut self, events: &[Event]) {
        let mut last: HashMap<u32, u64> = HashMap::new();
        for event in events {
            match (&event.kind, last.get(&event.tid)) {
                (Kind::Fault(_), _) => drop(last.insert(event.tid, event.time_ns)),
                (Kind::Cache(change), Some(&fault_ns)) if change.cached == Cached::Added => {
                    self.read_in.insert((event.tid, fault_ns), event.time_ns);
                }
                (Kind::File(_) | Kind::Cache(_), _) => {}
                _ => drop(last.remove(&event.tid)),
            }
        }
    }

    fn note_facts(&mut self, event: &Event) {
        let inode = match &event.kind {
            Kind::File(FileFacts { inode, .. }) => inode,
            Kind::Cache(change) => &change.inode,
            _ => return,
        };
        for file in self.by_inode.get(inode).into_iter().flatten() {
            let file = &mut self.files[file.0 as usize];
            match &event.kind {
                Kind::File(facts) => {
                    file.kind = if facts.is_in_memory { FileKind::Memory } else { FileKind::Disk };
                    file.len_bytes = Some(facts.len_bytes);
                }
                Kind::Cache(change) => file.cached.note(event.time_ns, change),
                _ => {}
            }
        }
    }

    fn identity_of_call(&self, call: &Call) -> Option<(FileKind, Identity)> {
        let flags = MapFlags::from_bits_retain(call.args[3] as u32);
        let is_mapped = call.sys == Sys::Mmap && !flags.contains(MapFlags::ANONYMOUS);
        let name = call.file.as_ref().filter(|_| is_mapped && call.result.is_some_and(|at| at >= 0))?;
        let path = path_of(name);
        let kind = kind_of(name)?;
        let by_inode = call.inode.map(|inode| Identity::Inode(inode, base_of(path)));
        let known = by_inode.or_else(|| self.by_path.get(path).cloned());
        Some((kind, known.unwrap_or_else(|| Identity::Path(path.to_string()))))
    }
}

fn identity_of_mapping(mapping: &Mapping) -> Option<(FileKind, Identity)> {
    let kind = kind_of(&mapping.name)?;
    let inode = Inode::of_map(&mapping.device, mapping.inode)?;
    Some((kind, Identity::Inode(inode, base_of(path_of(&mapping.name)))))
}

fn base_of(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_string()
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
