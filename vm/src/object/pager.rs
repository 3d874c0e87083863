//! Objects of the embedder: a pager fills their pages, and a fault waits for one that is not ready.
//!
//! ```text
//!   fault                                            pager                       embedder
//!   the object has no frame for the page ─ gives up
//!   no lock, no read section: look at the word ─────► try_page ─ Ready ─► the frame becomes the object's
//!                        ▲                               ├ Beyond, Error ─► a bus error
//!                        │                               └ NotReady ─ reading begins
//!                        └── asleep while the word is the same ◄───────────────── page_ready: the word, wake
//! ```
//!
//! A word is shared by all pages of its hash. So a fault may be woken for another page, and asks again: the
//! pager alone knows what is ready. The word is looked at *before* the question, so no wake-up is missed.
//!
//! The system (`Vm`) borrows one pager, and an object has a *key*. An object cannot borrow it: objects lie in
//! a registry, whose values are put in through a shared reference. A lifetime in them could not be shortened,
//! nor that of the system that holds them; but spaces borrow the system for a shorter one.

use crate::frame::{FrameRef, PageFill};
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::{AtomicU32, Ordering::*};
use crate::sync::{Carve, carve_slice, fill};
use core::fmt;

/// Fills the pages of an embedder's objects: a file, memory of another machine, memory of a process that
/// answers its faults itself.
///
/// Called with no lock held, outside any read section, by the fault that needs the page: by several at once,
/// for the same page too. No method sleeps or waits: what takes longer is begun, and answered with
/// [`PageAnswer::NotReady`].
///
/// A fault that has begun may ask for a page while the object ends elsewhere: its last mapped page is
/// unmapped, its last handle dropped. So a key stays known to the pager until every thread that may fault
/// there has returned, or is answered with [`PageAnswer::Error`] from then on; the library does not say when
/// an object has ended.
///
/// A thread whose process is to end may wait in a fault: the embedder answers the page with `Error` from
/// then on, and calls [`Vm::page_ready`](crate::space::Vm::page_ready). On a platform whose threads do not
/// block, a fault ends with [`FaultError::Stalled`](crate::space::FaultError::Stalled) after thousands of
/// looks.
pub trait Pager<M: Machine>: Sync {
    /// Fills a page of an object: stores its bytes by [`PageFill::write`]. Those that are not stored are
    /// zero. Several faults may get the same page, and one of them keeps it.
    fn try_page(&self, object: PagerKey, page: u64, into: &mut PageFill<'_, M>) -> PageAnswer;

    /// The length of an object in bytes, asked once, as its first handle is made. It changes by
    /// [`ObjectHandle::set_len_bytes`](crate::space::ObjectHandle::set_len_bytes). The default: as long as
    /// any, so that `try_page` alone says what there is.
    fn size_bytes(&self, object: PagerKey) -> u64 {
        let _ = object;
        u64::MAX
    }

    /// Whether an object's pages are written back, asked once, as its first handle is made: then a page is
    /// *dirty* from its first store on, and the library knows which ones are. The default is no: what is
    /// stored is in memory alone.
    fn is_written_back(&self, object: PagerKey) -> bool {
        let _ = object;
        false
    }

    /// Before a page that is clean is stored to: a place for it on the disk, a record in a journal. The page
    /// is dirty afterwards, whether it is stored to or not, and is written back before this is called for it
    /// again. The default allows it.
    fn try_make_writable(&self, object: PagerKey, page: u64) -> PageAnswer {
        let _ = (object, page);
        PageAnswer::Ready
    }

    /// Writes a page back. Its bytes may change meanwhile: then it is dirty again. `Ready`: it is written.
    /// `NotReady`: that has begun, of a copy of the bytes that the embedder has made; it is asked again once
    /// [`Vm::page_ready`](crate::space::Vm::page_ready) was called, and says then how it has ended; the page
    /// may lie beyond the end of the object by now. `Error`, `Beyond`: it was not written, and stays dirty.
    ///
    /// Truncation of the object, and a hole in it, wait for pages that are being written: once they return,
    /// no call of this method for what they took is under way, nor begins.
    fn write_back(&self, object: PagerKey, page: u64, from: &PageContents<'_, '_, M>) -> PageAnswer {
        let _ = (object, page, from);
        PageAnswer::Error
    }
}

/// The bytes of a page that is written back.
pub struct PageContents<'a, 'm, M: Machine> {
    frame: &'a FrameRef<'m, M>,
    len: usize,
}

impl<'a, 'm, M: Machine> PageContents<'a, 'm, M> {
    /// Those of the frame, of which the first `len` lie before the end of the object.
    pub(crate) fn new(frame: &'a FrameRef<'m, M>, len: usize) -> Self {
        Self { frame, len }
    }

    /// Bytes that lie before the end of the object, from the first on: all but of its last page.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the page lies beyond the end.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies bytes of the page, from `offset` on. Those that are stored meanwhile are copied as they were
    /// before or after.
    ///
    /// # Panics
    /// Where they do not lie in the page.
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        self.frame.read(offset, to);
    }
}

impl<M: Machine> fmt::Debug for PageContents<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {:?}", self.len, self.frame)
    }
}

/// The name that an embedder gives one of its objects. The library hands it back, and reads nothing from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PagerKey(pub u64);

/// What a pager says of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum PageAnswer {
    /// It was filled.
    Ready,
    /// Not yet. Once the answer is another one, of whatever kind, the embedder says so by
    /// [`Vm::page_ready`](crate::space::Vm::page_ready), or the fault sleeps for good. What was stored is
    /// thrown away.
    NotReady,
    /// The object has no such page: it lies wholly beyond its end. The fault ends with
    /// [`FaultError::Beyond`](crate::space::FaultError::Beyond).
    Beyond,
    /// The object has such a page and cannot give it: reading has failed. The fault ends as for `Beyond`, as
    /// in Linux.
    Error,
}

/// Number of words.
const WORDS: usize = 64;
/// Bit 0 of a word: a thread sleeps on it, or is about to.
const ASLEEP: u32 = 1;
/// What is added to a word for each page that has become ready.
const READY: u32 = 2;
/// Number of times that a sleep may end early before the pager is asked again: on a platform that does not
/// block threads, a wait is as long as that takes.
const LOOKS: u32 = if cfg!(any(loom, debug_assertions)) { 4 } else { 4096 };

/// The words that faults sleep on until a page is ready.
pub(crate) struct PageWaits<'m, C: Cpu> {
    words: &'m [AtomicU32<C>],
}

/// A word, and what it was when it was looked at.
pub(crate) struct PageWait<'a, C: Cpu> {
    word: &'a AtomicU32<C>,
    seen: u32,
}

impl<'m, C: Cpu> PageWaits<'m, C> {
    /// Words on which no thread sleeps. `None` where memory does not suffice.
    pub(super) fn carve(from: &mut impl Carve<'m>) -> Option<Self> {
        let words = fill(carve_slice(from, WORDS)?, |_| AtomicU32::new(0));
        Some(Self { words })
    }

    fn word_of(&self, object: PagerKey, page: u64) -> &'m AtomicU32<C> {
        let hash = (object.0 ^ page.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.words[hash as usize % WORDS]
    }

    /// Looks at the word of a page, before the pager is asked.
    pub(crate) fn look(&self, object: PagerKey, page: u64) -> PageWait<'m, C> {
        let word = self.word_of(object, page);
        // Acquire: what the embedder did before it said that a page is ready. Pairs with `ready`.
        PageWait { word, seen: word.load(Acquire) & !ASLEEP }
    }

    /// Wakes the faults that wait for a page, and others of its word.
    pub(crate) fn ready(&self, object: PagerKey, page: u64) {
        let word = self.word_of(object, page);
        // Release: pairs with `look` and `wait`.
        let next = |now: u32| Some((now & !ASLEEP).wrapping_add(READY));
        let was_asleep = word.update(Release, Relaxed, next).unwrap_or(0) & ASLEEP != 0;
        if was_asleep && !mutant!("pager.not-woken") {
            word.wake(u32::MAX);
        }
    }
}

impl<C: Cpu> PageWait<'_, C> {
    /// Sleeps until a page of this word has become ready since the look: then `true`. May return early.
    pub(crate) fn wait(self) -> bool {
        for _ in 0..LOOKS {
            let now = self.word.fetch_or(ASLEEP, Acquire);
            if now & !ASLEEP != self.seen {
                return true;
            }
            self.word.sleep_while(now | ASLEEP);
        }
        false
    }
}

impl<C: Cpu> fmt::Debug for PageWaits<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} words", self.words.len())
    }
}
