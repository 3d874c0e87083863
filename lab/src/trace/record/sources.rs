//! The events that a recording opens on a program before it runs.
//!
//! On every CPU: the two fault tracepoints, calls entered and left (filtered by number, so that the kernel
//! writes nothing of the others), tasks made, pages that come into the page cache or leave it, where the
//! kernel tells of them; all into that CPU's ring. Beside them two counters of faults
//! resolved, which need no ring buffer and cannot lose any: the independent count for the account.

use super::Refusal;
use super::decode::{PTRACE, Points, Samples};
use super::host::cpus_online;
use super::privilege;
use super::tracepoint::ensure_tracefs;
use crate::os::perf::{Modes, PerfEvent, Ring, Watch};
use crate::trace::calls::Sys;
use crate::trace::header::Extent;
use std::ffi::CString;
use std::io;

/// Everything that was opened.
#[derive(Debug)]
pub struct Sources {
    /// What the samples look like.
    pub samples: Samples,
    /// One ring for each CPU.
    pub rings: Vec<Ring>,
    /// What is left of the events once the rings are handed over.
    pub counters: FaultCounters,
    /// Whether tracefs was mounted for them.
    pub mounted_tracefs: bool,
    /// Whether the page cache is followed.
    pub page_cache: bool,
}

/// The events without a ring of their own, and the counters.
#[derive(Debug, Default)]
pub struct FaultCounters {
    guests: Vec<PerfEvent>,
    resolved: Vec<PerfEvent>,
}

/// The smallest ring buffer that is accepted, bytes.
const LEAST_RING_BYTES: usize = 64 << 10;
/// The most memory that all rings may take, bytes.
const MOST_RINGS_BYTES: usize = 1 << 30;

impl Sources {
    /// Opens what `extent` asks for on `pid`, with rings of up to `ring_bytes` (a power of two).
    pub fn open(extent: Extent, pid: u32, ring_bytes: usize) -> Result<Sources, Refusal> {
        let (mut mounted_tracefs, mut page_cache) = (false, false);
        let (samples, watches, modes) = match extent {
            Extent::Whole => {
                let points;
                (points, mounted_tracefs) = find_points()?;
                page_cache = points.follow_page_cache();
                let watches = points.ids().into_iter().map(Watch::Tracepoint).collect();
                (Samples::Tracepoints(Box::new(points)), watches, Modes::All)
            }
            Extent::Partial => (Samples::Addresses, vec![Watch::PageFaults], Modes::User),
        };
        let cpus = cpus_online();
        let share = MOST_RINGS_BYTES / cpus.len().max(1);
        let mut ring_bytes = ring_bytes.min(1 << share.ilog2());
        let (mut rings, mut counters) = (Vec::new(), FaultCounters::default());
        for cpu in cpus {
            let first = PerfEvent::open(watches[0], modes, pid, Some(cpu), true).map_err(refused)?;
            let ring = map_ring(first, &mut ring_bytes)?;
            for (i, &watch) in watches.iter().enumerate().skip(1) {
                let guest = PerfEvent::open(watch, modes, pid, Some(cpu), false).map_err(refused)?;
                if matches!(i, 2 | 3) {
                    guest.set_filter(&filter()).map_err(refused)?;
                }
                guest.redirect_to(&ring).map_err(refused)?;
                counters.guests.push(guest);
            }
            rings.push(ring);
        }
        for watch in [Watch::CountMinor, Watch::CountMajor] {
            counters.resolved.push(PerfEvent::open(watch, modes, pid, None, false).map_err(refused)?);
        }
        Ok(Sources { samples, rings, counters, mounted_tracefs, page_cache })
    }
}

/// The tracepoints, and whether tracefs was mounted for them.
fn find_points() -> Result<(Points, bool), Refusal> {
    if !privilege::missing().is_empty() {
        return Err(Refusal::privilege());
    }
    let mounted = ensure_tracefs()?;
    Ok((Points::find()?, mounted))
}

/// Maps a ring, a smaller one if the host refuses the size.
fn map_ring(mut event: PerfEvent, bytes: &mut usize) -> Result<Ring, Refusal> {
    loop {
        match Ring::map(event, *bytes) {
            Ok(ring) => return Ok(ring),
            Err((back, _)) if *bytes > LEAST_RING_BYTES => {
                event = back;
                *bytes /= 2;
            }
            Err((_, error)) => {
                return Err(Refusal::host(format!(
                    "no ring of {bytes} bytes: {error}; CAP_IPC_LOCK lifts the limit"
                )));
            }
        }
    }
}

fn filter() -> CString {
    let numbers = Sys::ALL.iter().map(|&sys| sys as u64).chain([PTRACE]);
    let terms: Vec<_> = numbers.map(|number| format!("id == {number}")).collect();
    CString::new(terms.join(" || ")).unwrap_or_default()
}

fn refused(error: io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Refusal::privilege(),
        _ => Refusal::host(format!("perf_event_open: {error}")),
    }
}

impl FaultCounters {
    /// Faults that the kernel resolved in all tasks of the recording so far, exceptions only.
    pub fn completed(&self) -> io::Result<u64> {
        self.resolved.iter().map(|c| Ok(c.count_and_lost()?.0)).sum()
    }

    /// Number of samples that the kernel could not write, counted even where no record reports them.
    pub fn lost(&self) -> io::Result<u64> {
        self.guests.iter().map(|c| Ok(c.count_and_lost()?.1)).sum()
    }
}
