//! Real times: zeros behind large pages against one small page shown everywhere, and Linux's own zero pages.

use super::pattern::{HUGE, PAGE, Pattern};
use crate::error::Failure;
use crate::os::zero_memory::{ZeroMemory, ZeroPages, minor_faults, resident_bytes, table_bytes};
use serde::Serialize;
use std::hint::black_box;
use std::time::Instant;

/// Times of one kind of memory.
#[derive(Clone, Debug, Serialize)]
pub struct HostRow {
    /// What is behind the addresses.
    pub name: &'static str,
    /// Bytes of the range.
    pub bytes: u64,
    /// Comparing the halves, ns for each page of the range, the fastest round.
    pub compare_ns_per_page: f64,
    /// A byte per page, ns for each page of the range, the fastest round.
    pub touch_ns_per_page: f64,
    /// Page faults of the first touch, a byte of each page.
    pub faults: u64,
    /// Bytes of tables that the first touch took, where the host says.
    pub table_bytes: Option<u64>,
    /// Bytes that became resident by the first touch, where the host says.
    pub resident_bytes: Option<u64>,
}

/// A window of 2 MiB both ways; and, by Linux's zero pages, `memory` bytes, and `touched` bytes that are only
/// touched once.
pub fn rows(memory: u64, touched: u64, rounds: usize) -> Result<Vec<HostRow>, Failure> {
    let rounds_of_window = rounds * 100;
    Ok(vec![
        row("2 MiB of zeros, one page", HUGE, ZeroPages::Huge, rounds_of_window)?,
        row("one 4 KiB frame, shown 512 times", HUGE, ZeroPages::Shown, rounds_of_window)?,
        row("Linux, huge zero page", touched, ZeroPages::Huge, rounds)?,
        row("Linux, small zero page", touched, ZeroPages::Small, rounds)?,
        row("Linux, huge zero page", memory, ZeroPages::Huge, rounds)?,
        row("Linux, small zero page", memory, ZeroPages::Small, rounds)?,
    ])
}

fn row(name: &'static str, bytes: u64, pages: ZeroPages, rounds: usize) -> Result<HostRow, Failure> {
    let len = usize::try_from(bytes).map_err(Failure::of)?;
    let memory = ZeroMemory::new(len, pages)?;
    let (faults, tables, resident) = (minor_faults(), table_bytes(), resident_bytes());
    touch(memory.bytes());
    let rise = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
    Ok(HostRow {
        name,
        bytes,
        faults: minor_faults() - faults,
        table_bytes: rise(table_bytes(), tables),
        resident_bytes: rise(resident_bytes(), resident),
        compare_ns_per_page: fastest(rounds, || compare(memory.bytes())) / (bytes / PAGE) as f64,
        touch_ns_per_page: fastest(rounds, || touch(memory.bytes())) / (bytes / PAGE) as f64,
    })
}

fn fastest(rounds: usize, mut round: impl FnMut()) -> f64 {
    let mut one = || {
        let start = Instant::now();
        round();
        start.elapsed().as_nanos() as f64
    };
    (0..rounds.max(1)).map(|_| one()).fold(f64::INFINITY, f64::min)
}

/// The host's memcmp of both halves.
fn compare(bytes: &[u8]) {
    let (low, high) = black_box(bytes).split_at(bytes.len() / 2);
    assert!(low == high, "zeros differ");
}

fn touch(bytes: &[u8]) {
    let bytes = black_box(bytes);
    let mut all = 0;
    Pattern::BytePerPage.round(bytes.len() as u64, |at| all |= bytes[at as usize]);
    assert!(black_box(all) == 0, "zeros are not zero");
}
