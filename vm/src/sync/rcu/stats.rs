//! Counts of garbage.

#![forbid(unsafe_code)]

use super::garbage::Garbage;
use super::{Local, Rcu, garbage_of};
use crate::machine::{Cpu, Machine};
use crate::sync::asymmetric::revoke_all;
use crate::sync::atomic::Ordering::Relaxed;

/// Garbage of an [`Rcu`]: now, at its peak, and how long it waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GarbageStats {
    /// Objects that are not freed.
    pub objects: u64,
    /// Bytes of those that wait for readers.
    pub bytes: u64,
    /// The sum over all CPUs, and the orphans, of the most bytes that waited at once.
    pub peak_bytes: u64,
    /// The sum of the numbers of objects at these moments.
    pub peak_objects: u64,
    /// Of `peak_bytes`, what the last call at each of these moments retired. One call may unlink any amount:
    /// all mappings of a space that ends.
    pub peak_call_bytes: u64,
    /// The sum of the most that [`GarbageLimits`](super::GarbageLimits) allow each CPU. What is retired in
    /// one call comes on top.
    pub most_bytes: u64,
    /// The longest time from an object's retirement until it was found free, in nanoseconds: to within the
    /// first of its epoch on its CPU.
    pub longest_wait_ns: u64,
    /// The longest grace period that a caller waited for, in nanoseconds.
    pub longest_grace_ns: u64,
}

impl GarbageStats {
    fn add(&mut self, garbage: &Garbage) {
        let peak = garbage.peak();
        self.objects += u64::from(garbage.len());
        self.bytes += garbage.waiting() as u64;
        self.peak_bytes += peak.bytes as u64;
        self.peak_call_bytes += peak.last_bytes as u64;
        self.peak_objects += u64::from(peak.objects);
        self.longest_wait_ns = self.longest_wait_ns.max(garbage.longest_ns());
    }
}

impl<C: Cpu> Rcu<'_, C> {
    /// Counts the garbage of all CPUs, at the cost of a barrier on all of them. Batches that are being
    /// freed are not counted. May be called wherever [`Rcu::retire`] may, and in a read section.
    pub fn stats<M: Machine<Cpu = C>>(&self, machine: &M) -> GarbageStats {
        let most_bytes = self.limits.most as u64 * u64::from(self.cpus.nr_cpus());
        let longest_grace_ns = self.longest_grace_ns.load(Relaxed);
        let mut stats = GarbageStats { most_bytes, longest_grace_ns, ..GarbageStats::default() };
        let orphans = self.advance.lock();
        stats.add(&orphans);
        let count = |_: &Local<C>, garbage: &mut Garbage| stats.add(garbage);
        revoke_all(&self.cpus, machine, garbage_of, count, || ());
        stats
    }
}
