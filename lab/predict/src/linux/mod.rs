//! Linux's locks of a process's memory: a model, around the library's own work.
//!
//! | name | a fault takes | a call takes | Linux |
//! |---|---|---|---|
//! | `linux-mmap-lock` | mmap_lock, to read | mmap_lock, to write | before 6.4 |
//! | `linux-vma-rwsem` | the mapping's semaphore, unless a writer has it | both, to write | 6.4 to 6.14 |
//! | `linux-vma-count` | the mapping's count, unless a writer has it | mmap_lock, and waits | from 6.15 on |
//!
//! Where a mapping's lock is refused, a fault takes mmap_lock. The words lie on lines as in Linux: those of
//! mmap_lock and of the sequence number of its writers on one, a mapping's on one of its own. Inside of the
//! locks a fault is the library's, without a lock of the space, and so are a call's steps; a munmap holds
//! mmap_lock to the end, where Linux goes on as a reader for its second half.
//!
//! It is there to be held against curves that were published of Linux; no number is fitted.

mod queued;
mod rwsem;
#[cfg(test)]
mod tests;

use interleaf::machine::Cpu;
use interleaf::space::Path;
use interleaf::sync::atomic::{AtomicU32, Ordering::*};
use interleaf_lab::machine::sim::Sim;
use queued::Node;
use rwsem::Rwsem;

/// Which way faults go: one of the library's, or the library's work under Linux's locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The library's.
    Library(Path),
    /// Under Linux's locks.
    Linux(LinuxLock),
}

/// What a fault takes in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinuxLock {
    /// mmap_lock.
    Mmap,
    /// A semaphore of the mapping.
    VmaRwsem,
    /// A count of the mapping.
    VmaCount,
}

impl From<Path> for Way {
    fn from(path: Path) -> Self {
        Self::Library(path)
    }
}

impl Way {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Library(path) => path.name(),
            Self::Linux(LinuxLock::Mmap) => "linux-mmap-lock",
            Self::Linux(LinuxLock::VmaRwsem) => "linux-vma-rwsem",
            Self::Linux(LinuxLock::VmaCount) => "linux-vma-count",
        }
    }

    /// The path of the spaces. Under Linux's locks faults take none of the library's.
    pub const fn path(self) -> Path {
        match self {
            Self::Library(path) => path,
            Self::Linux(_) => Path::Speculative,
        }
    }

    /// The locks of a process with so many mappings, if it is Linux's.
    pub fn locks(self, cpus: u32, mappings: u32) -> Option<LinuxLocks> {
        match self {
            Self::Library(_) => None,
            Self::Linux(kind) => Some(LinuxLocks::new(kind, cpus, mappings)),
        }
    }
}

/// The lock of a mapping.
struct Vma {
    rwsem: Rwsem,
    words: VmaWords,
}

/// [`REFERENCED`] and the number of readers; [`WRITER`] while a writer waits for them. The number of the
/// writer that had it last.
#[repr(C, align(128))]
struct VmaWords {
    count: AtomicU32<Sim>,
    locked_by: AtomicU32<Sim>,
}

/// A mapping that is in the tree.
const REFERENCED: u32 = 1;
/// A writer has the mapping, or waits for its readers.
const WRITER: u32 = 1 << 30;

/// The locks of one process.
pub struct LinuxLocks {
    kind: LinuxLock,
    mmap: Rwsem,
    vmas: Box<[Vma]>,
    /// A node for each CPU.
    nodes: Box<[Node]>,
}

impl LinuxLocks {
    /// Of a process with so many mappings, on so many CPUs. Nothing is locked.
    fn new(kind: LinuxLock, cpus: u32, mappings: u32) -> Self {
        let words = || VmaWords { count: AtomicU32::new(REFERENCED), locked_by: AtomicU32::new(0) };
        let vma = |_| Vma { rwsem: Rwsem::new(), words: words() };
        Self {
            kind,
            mmap: Rwsem::new(),
            vmas: (0..mappings).map(vma).collect(),
            nodes: (0..cpus).map(|_| Node::new()).collect(),
        }
    }

    /// Does a fault in a mapping.
    pub fn fault<R>(&self, mapping: u32, fault: impl FnOnce() -> R) -> R {
        let vma = &self.vmas[mapping as usize];
        if !self.is_own_lock_taken(vma) {
            self.mmap.read(&self.nodes);
            let result = fault();
            self.mmap.unread(&self.nodes);
            return result;
        }
        let result = fault();
        self.release(vma);
        result
    }

    /// Does a call that changes a mapping.
    pub fn call<R>(&self, mapping: u32, call: impl FnOnce() -> R) -> R {
        self.mmap.write(&self.nodes);
        if self.kind != LinuxLock::Mmap {
            self.lock_to_write(&self.vmas[mapping as usize]);
        }
        let result = call();
        let sequence = self.mmap.sequence();
        sequence.store(sequence.load(Relaxed) + 1, Release);
        self.mmap.unwrite(&self.nodes);
        result
    }

    /// Does a call that drops contents, as a reader of mmap_lock.
    pub fn discard<R>(&self, call: impl FnOnce() -> R) -> R {
        self.mmap.read(&self.nodes);
        let result = call();
        self.mmap.unread(&self.nodes);
        result
    }

    /// Takes the mapping's own lock, to read, if there is one and no writer has it.
    fn is_own_lock_taken(&self, vma: &Vma) -> bool {
        if self.kind == LinuxLock::Mmap || self.is_locked_to_write(vma) {
            return false;
        }
        let is_taken = match self.kind {
            LinuxLock::VmaRwsem => vma.rwsem.try_read(),
            _ => {
                let one_more = |count| (count & WRITER == 0 && count != 0).then_some(count + 1);
                vma.words.count.update(Acquire, Relaxed, one_more).is_ok()
            }
        };
        if is_taken && self.is_locked_to_write(vma) {
            self.release(vma);
            return false;
        }
        is_taken
    }

    fn is_locked_to_write(&self, vma: &Vma) -> bool {
        vma.words.locked_by.load(Relaxed) == self.mmap.sequence().load(Acquire)
    }

    /// Releases the mapping's own lock.
    fn release(&self, vma: &Vma) {
        match self.kind {
            LinuxLock::VmaRwsem => vma.rwsem.unread(&self.nodes),
            _ => {
                let was = vma.words.count.fetch_sub(1, Release);
                if was & WRITER != 0 {
                    vma.words.count.wake(1);
                }
            }
        }
    }

    /// Waits for the readers of the mapping, and keeps others out until mmap_lock is released.
    fn lock_to_write(&self, vma: &Vma) {
        let sequence = self.mmap.sequence().load(Relaxed);
        if self.kind == LinuxLock::VmaRwsem {
            vma.rwsem.write(&self.nodes);
            vma.words.locked_by.store(sequence, Relaxed);
            return vma.rwsem.unwrite(&self.nodes);
        }
        let mut count = vma.words.count.fetch_add(WRITER, Acquire) + WRITER;
        while count != WRITER + REFERENCED {
            vma.words.count.sleep_while(count);
            count = vma.words.count.load(Acquire);
        }
        vma.words.locked_by.store(sequence, Relaxed);
        vma.words.count.fetch_sub(WRITER, Release);
    }
}

/// This CPU's place among the nodes.
fn me() -> usize {
    Sim::id().index()
}
