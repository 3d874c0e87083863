//! What a machine and the values that its handlers are called with have in common.

use super::bus::Bus;
use super::claims::Claims;
use super::copies::Copies;
use super::helpers::Helpers;
use super::tlb::Violation;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, OnceLock};

/// What the machine and the values that its handlers get share.
pub(super) struct Shared {
    /// Number of nodes to which CPUs are assigned round robin. Relaxed: set before the machine is used.
    pub(super) nodes: AtomicU32,
    /// Number of CPUs that fill a node, where they are not assigned round robin; else 0. Relaxed, as `nodes`.
    pub(super) cpus_of_node: AtomicU32,
    /// Whether there are record windows. Relaxed, as `nodes`.
    pub(super) has_record_windows: AtomicBool,
    pub(super) helpers: Helpers,
    /// Frames that were claimed.
    pub(super) claims: Claims,
    pub(super) violations: Mutex<Vec<Violation>>,
    /// Translations that a recount has copied.
    pub(super) copies: Copies,
    /// Hears the library's events, if one was set.
    pub(super) listener: OnceLock<Listener>,
}

/// Hears an event of the library: its name and its value.
pub type Listener = Box<dyn Fn(&'static str, u64) + Send + Sync>;

/// Held by the machine alone: its end is that of the handlers and the helpers.
pub(super) struct Owner {
    pub(super) bus: Arc<Bus>,
    pub(super) shared: Arc<Shared>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.bus.set_interrupt_handler(None);
        self.shared.helpers.stop();
    }
}
