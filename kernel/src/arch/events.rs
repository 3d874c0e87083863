//! The last events that the library reported: why faults gave up speculating, and where. Kept in memory,
//! printed among the last words of a panic.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use interleaf::space::Fallback;

/// How many are kept.
const KEPT: usize = 16;
/// Bits of a canonical address; the number of the reason, from 1, lies above.
const ADDRESS_BITS: u32 = 48;

/// A ring of events. Each slot is one word, so an event is never a mixture of two; which of two that come at
/// the same time is the later is not kept.
#[derive(Debug)]
pub struct Events {
    /// Events so far. Relaxed: a count.
    noted: AtomicU64,
    /// Relaxed: each word stands alone.
    slots: [AtomicU64; KEPT],
}

impl Events {
    /// Nothing noted.
    pub const fn new() -> Self {
        Self { noted: AtomicU64::new(0), slots: [const { AtomicU64::new(0) }; KEPT] }
    }

    /// Keeps an event whose name is that of a [`Fallback`]'s counter; of others only their number.
    pub fn note(&self, name: &str, address: u64) {
        let slot = self.noted.fetch_add(1, Relaxed) as usize % KEPT;
        let reason = Fallback::ALL.iter().position(|reason| reason.counter().name() == name);
        let word =
            reason.map_or(0, |reason| (reason as u64 + 1) << ADDRESS_BITS | address & !(!0 << ADDRESS_BITS));
        self.slots[slot].store(word, Relaxed);
    }

    /// Number of events so far.
    pub fn noted(&self) -> u64 {
        self.noted.load(Relaxed)
    }

    /// The last events, the latest first.
    pub fn last(&self) -> impl Iterator<Item = (Fallback, u64)> + '_ {
        let noted = self.noted();
        (1..=noted.min(KEPT as u64)).filter_map(move |back| {
            let word = self.slots[(noted - back) as usize % KEPT].load(Relaxed);
            let reason = *Fallback::ALL.get((word >> ADDRESS_BITS).checked_sub(1)? as usize)?;
            let unused = 64 - ADDRESS_BITS;
            Some((reason, ((word << unused) as i64 >> unused) as u64))
        })
    }
}
