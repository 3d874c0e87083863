//! Faults that ended in a signal.

use crate::trace::{Event, Kind, Signal};
use std::collections::HashMap;

/// Faults after which a signal that names their address was delivered to the same thread, by their index.
pub type Signalled = HashMap<usize, Signal>;

/// Those among the events of a life.
pub fn signalled(events: &[Event]) -> Signalled {
    let mut last = HashMap::new();
    let mut found = HashMap::new();
    for (at, event) in events.iter().enumerate() {
        match &event.kind {
            Kind::Fault(fault) => {
                last.insert(event.tid, (at, fault.address));
            }
            Kind::Signal(signal) => match last.get(&event.tid) {
                Some(&(fault, address)) if address == signal.address => {
                    found.insert(fault, *signal);
                }
                _ => {}
            },
            _ => {}
        }
    }
    found
}

/// Whether what was accessed lies beyond the end of its file: SIGBUS with `BUS_ADRERR`.
pub fn is_beyond_end(signal: &Signal) -> bool {
    (signal.number, signal.code) == (7, 2)
}

/// Whether a protection key refused the access: SIGSEGV with `SEGV_PKUERR`.
pub fn is_of_key(signal: &Signal) -> bool {
    (signal.number, signal.code) == (11, 4)
}
