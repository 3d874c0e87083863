//! crossbeam-epoch: entering and leaving a read section.

use crate::bench::ns_per;
use std::hint::black_box;

/// Pinning the current thread and unpinning it.
pub fn pin(times: u64) -> impl FnMut() -> f64 {
    move || {
        ns_per(times, || {
            black_box(crossbeam_epoch::pin());
        })
    }
}
