//! Records accesses, on the thread that asked for it.

use super::Footprint;
use interleaf::machine::AccessKind;
use interleaf::units::{CACHE_LINE, CpuId};
use std::cell::{Cell, RefCell};
use std::panic::Location;

/// A place in the source.
pub type Place = &'static Location<'static>;

/// A place as file and line, the file from the folder of its crate on.
pub fn site(place: Place) -> String {
    let file = place.file();
    let file = ["vm/src/", "lab/", "linux-abi/"]
        .iter()
        .find_map(|start| file.find(start))
        .map_or(file, |at| &file[at..]);
    format!("{file}:{}", place.line())
}

/// One access to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The CPU.
    pub cpu: CpuId,
    /// First byte; 0 for a fence.
    pub addr: usize,
    /// Bytes.
    pub len_bytes: usize,
    /// Kind of the access.
    pub kind: AccessKind,
    /// Place in the source.
    pub place: Place,
}

impl Touch {
    /// The cache line of the first byte, as a number.
    pub fn line(&self) -> usize {
        self.addr / CACHE_LINE
    }
}

/// Where accesses of this thread go.
enum Sink {
    List(Vec<Touch>),
    Count(Footprint),
}

thread_local! {
    static ARMED: Cell<bool> = const { Cell::new(false) };
    static SINK: RefCell<Option<Sink>> = const { RefCell::new(None) };
}

/// Runs `f` and lists every access that this thread makes meanwhile.
///
/// # Panics
/// Where the thread records already.
pub fn record<R>(f: impl FnOnce() -> R) -> (R, Vec<Touch>) {
    match armed(Sink::List(Vec::new()), f) {
        (result, Sink::List(touches)) => (result, touches),
        (_, Sink::Count(_)) => unreachable!("the sink is the one that was armed"),
    }
}

/// Runs `f` and counts the accesses that this thread makes meanwhile, by field and place.
///
/// # Panics
/// Where the thread records already.
pub fn footprint<R>(f: impl FnOnce() -> R) -> (R, Footprint) {
    match armed(Sink::Count(Footprint::default()), f) {
        (result, Sink::Count(footprint)) => (result, footprint),
        (_, Sink::List(_)) => unreachable!("the sink is the one that was armed"),
    }
}

fn armed<R>(sink: Sink, f: impl FnOnce() -> R) -> (R, Sink) {
    /// Disarms, also when `f` panics.
    struct Disarm;
    impl Drop for Disarm {
        fn drop(&mut self) {
            ARMED.set(false);
        }
    }
    assert!(!ARMED.replace(true), "the thread records already");
    SINK.set(Some(sink));
    let disarm = Disarm;
    let result = f();
    drop(disarm);
    (result, SINK.take().expect("the sink was put there above"))
}

/// Records one access, if the thread records.
#[inline]
pub(super) fn note_access(touch: Touch) {
    if ARMED.get() {
        SINK.with_borrow_mut(|sink| match sink {
            Some(Sink::List(touches)) => touches.push(touch),
            Some(Sink::Count(footprint)) => footprint.add(&touch),
            None => (),
        });
    }
}
