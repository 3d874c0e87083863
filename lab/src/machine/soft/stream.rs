//! Stores that bypass the caches.
//!
//! An ordinary store to a line that is not in a cache reads the line first. Code that fills memory which will
//! not be read soon pays for that twice: once in bandwidth, once in the lines it evicts. Streaming stores
//! write whole lines and read nothing. They are not ordered with other stores, so each function ends with a
//! fence.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

/// Bytes that are written to compare widths: longer than what a CPU gathers before it writes to memory.
const MEASURED_BYTES: usize = 1 << 20;

/// How many bytes one streaming store writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 16 bytes: every x86-64.
    Sse,
    /// 32 bytes, where the host has AVX.
    Avx,
    /// 64 bytes, where the host has AVX-512.
    Avx512,
}

impl Width {
    /// Those that this host has, the narrowest first.
    pub fn on_this_host() -> Vec<Width> {
        let all = [Width::Sse, Width::Avx, Width::Avx512];
        all.into_iter().filter(|width| width.is_here()).collect()
    }

    /// The fastest of this host's, measured once: which one it is differs between CPUs.
    pub fn fastest() -> Width {
        static FASTEST: OnceLock<Width> = OnceLock::new();
        *FASTEST.get_or_init(|| {
            let mut bytes = vec![1u8; MEASURED_BYTES];
            let mut once = |width| {
                let start = Instant::now();
                zero(black_box(&mut bytes), width);
                start.elapsed()
            };
            let best = |width: &Width| (0..5).map(|_| once(*width)).min();
            Width::on_this_host().into_iter().min_by_key(best).unwrap_or(Width::Sse)
        })
    }

    #[cfg(target_arch = "x86_64")]
    fn is_here(self) -> bool {
        match self {
            Width::Sse => true,
            Width::Avx => std::arch::is_x86_feature_detected!("avx"),
            Width::Avx512 => std::arch::is_x86_feature_detected!("avx512f"),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_here(self) -> bool {
        false
    }
}

/// Zeroes bytes; those of whole, aligned lines past the caches, with stores of this width if the host has
/// them.
pub fn zero(bytes: &mut [u8], width: Width) {
    // SAFETY: bytes of any value are bytes; the middle is aligned to lines.
    let (before, lines, after) = unsafe { bytes.align_to_mut::<Line>() };
    before.fill(0);
    after.fill(0);
    if width.is_here() { stream(lines, width) } else { lines.fill(Line([0; 64])) }
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u8; 64]);

#[cfg(not(target_arch = "x86_64"))]
fn stream(lines: &mut [Line], _width: Width) {
    lines.fill(Line([0; 64]));
}

#[cfg(target_arch = "x86_64")]
fn stream(lines: &mut [Line], width: Width) {
    match width {
        Width::Sse => sse(lines),
        // SAFETY: the host has the instructions, as just asked.
        Width::Avx if width.is_here() => unsafe { avx(lines) },
        // SAFETY: the host has the instructions, as just asked.
        Width::Avx512 if width.is_here() => unsafe { avx512(lines) },
        Width::Avx | Width::Avx512 => lines.fill(Line([0; 64])),
    }
    // SAFETY: every x86-64 has the fence.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

#[cfg(target_arch = "x86_64")]
fn sse(lines: &mut [Line]) {
    use std::arch::x86_64::{__m128i, _mm_setzero_si128, _mm_stream_si128};
    // SAFETY: part of every x86-64.
    let zero = unsafe { _mm_setzero_si128() };
    for line in lines {
        let at = line.0.as_mut_ptr().cast::<__m128i>();
        // SAFETY: four aligned stores of 16 bytes fill the line, which is borrowed mutably.
        (0..4).for_each(|part| unsafe { _mm_stream_si128(at.add(part), zero) });
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
fn avx(lines: &mut [Line]) {
    use std::arch::x86_64::{__m256i, _mm256_setzero_si256, _mm256_stream_si256};
    let zero = _mm256_setzero_si256();
    for line in lines {
        let at = line.0.as_mut_ptr().cast::<__m256i>();
        for part in 0..2 {
            // SAFETY: two aligned stores of 32 bytes fill the line, which is borrowed mutably.
            unsafe { _mm256_stream_si256(at.add(part), zero) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn avx512(lines: &mut [Line]) {
    use std::arch::x86_64::{_mm512_setzero_si512, _mm512_stream_si512};
    let zero = _mm512_setzero_si512();
    for line in lines {
        // SAFETY: one aligned store of 64 bytes fills the line, which is borrowed mutably.
        unsafe { _mm512_stream_si512(line.0.as_mut_ptr().cast(), zero) };
    }
}

#[cfg(test)]
#[path = "tests/stream.rs"]
mod tests;
