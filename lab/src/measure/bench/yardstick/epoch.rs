//! crossbeam-epoch: entering and leaving a read section.

use crate::measure::bench::ns_per;

/// Pinning the current thread and unpinning it.
pub fn pin(times: u64) -> impl FnMut() -> f64 {
    move || {
        ns_per(times, || {
            drop(crossbeam_epoch::pin());
        })
    }
}
