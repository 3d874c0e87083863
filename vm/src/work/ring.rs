//! The records of an ordered queue: the submitted items, their progress, and the CPU whose turn it is. Plain
//! data, guarded by the queue's lock.
//!
//! ```text
//!   served      head          begun           tail
//!     . . . . . |# # # . # # #|o o o o o o o o|
//!                ready or under way   not begun
//! ```
//!
//! A record's index is its number modulo the size. Parallel parts begin in order and end in any order; serial
//! parts are done strictly in order, one at a time, each on the CPU asked for, or on another of the set where
//! that CPU is not in it.

use crate::units::{CpuId, CpuMask, CpuWords};

/// Progress of a record.
enum RecordState<T> {
    /// No record.
    Free,
    /// Its parallel part has not begun.
    Waiting(T),
    /// A worker has the item, for its parallel or its serial part.
    Away,
    /// Its parallel part is done; `None` if that panicked.
    Ready(Option<T>),
}

struct Record<T> {
    state: RecordState<T>,
    /// The CPU for its serial part.
    wanted: CpuId,
}

/// See the module.
pub(super) struct Ring<T, W, const N: usize> {
    records: [Record<T>; N],
    head: u64,
    begun: u64,
    tail: u64,
    /// Whether a serial part is under way.
    is_served: bool,
    pub(super) parallel: CpuMask<W>,
    pub(super) serial: CpuMask<W>,
    /// Records whose parallel part panicked: they were dropped without a serial part.
    pub(super) lost: u64,
}

impl<T, W: CpuWords, const N: usize> Ring<T, W, N> {
    pub(super) fn new(parallel: CpuMask<W>, serial: CpuMask<W>) -> Self {
        let records = core::array::from_fn(|_| Record { state: RecordState::Free, wanted: CpuId(0) });
        Self { records, head: 0, begun: 0, tail: 0, is_served: false, parallel, serial, lost: 0 }
    }

    fn record(&mut self, number: u64) -> &mut Record<T> {
        &mut self.records[(number % N as u64) as usize]
    }

    /// Adds a record.
    ///
    /// # Errors
    /// The item, where no record is free.
    pub(super) fn submit(&mut self, item: T, wanted: CpuId) -> Result<(), T> {
        if self.tail - self.head >= N as u64 {
            return Err(item);
        }
        *self.record(self.tail) = Record { state: RecordState::Waiting(item), wanted };
        self.tail += 1;
        Ok(())
    }

    /// Adds a record whose parallel part the submitter has done already. Earlier parallel parts need not be
    /// done.
    ///
    /// # Errors
    /// As [`Ring::submit`].
    pub(super) fn submit_done(&mut self, item: T, wanted: CpuId) -> Result<(), T> {
        if self.tail - self.head >= N as u64 {
            return Err(item);
        }
        *self.record(self.tail) = Record { state: RecordState::Ready(Some(item)), wanted };
        self.tail += 1;
        Ok(())
    }

    /// Begins the parallel part of the next record whose part has not begun.
    pub(super) fn begin(&mut self) -> Option<(u64, T)> {
        while self.begun < self.tail {
            let number = self.begun;
            self.begun += 1;
            let record = self.record(number);
            match core::mem::replace(&mut record.state, RecordState::Away) {
                RecordState::Waiting(item) => return Some((number, item)),
                done => record.state = done,
            }
        }
        None
    }

    /// Ends the parallel part of a record; `None` if it panicked.
    pub(super) fn end(&mut self, number: u64, item: Option<T>) {
        self.lost += u64::from(item.is_none());
        self.record(number).state = RecordState::Ready(item);
    }

    /// The CPU for the serial part of the first record, if that part can be done now. `Some(None)` if the set
    /// is empty.
    pub(super) fn turn(&mut self) -> Option<Option<CpuId>> {
        if self.is_served || self.head == self.tail {
            return None;
        }
        let number = self.head;
        let record = self.record(number);
        let (is_ready, wanted) = (matches!(record.state, RecordState::Ready(_)), record.wanted);
        is_ready.then(|| {
            let serial = &self.serial;
            let instead = || serial.iter().nth((number % u64::from(serial.count().max(1))) as usize);
            if serial.contains(wanted) { Some(wanted) } else { instead() }
        })
    }

    /// Begins the serial part of the first record; `None` where its item was lost.
    pub(super) fn serve(&mut self) -> Option<T> {
        self.is_served = true;
        let number = self.head;
        match core::mem::replace(&mut self.record(number).state, RecordState::Away) {
            RecordState::Ready(item) => item,
            other => {
                self.record(number).state = other;
                None
            }
        }
    }

    /// Ends the serial part of the first record.
    pub(super) fn served(&mut self) {
        let number = self.head;
        self.record(number).state = RecordState::Free;
        self.is_served = false;
        self.head += 1;
    }

    /// Records finished so far.
    pub(super) fn finished(&self) -> u64 {
        self.head
    }

    /// Records submitted so far.
    pub(super) fn submitted(&self) -> u64 {
        self.tail
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/ring.rs"]
mod tests;
