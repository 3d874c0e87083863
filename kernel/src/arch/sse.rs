//! The x87 and SSE state that an entry saves beside its frame.
//!
//! Source: SDM volume 1, section 10.5.1 (layout of the area), 8.1.3 and 10.2.3 (exceptions and their masks).

/// The area of `fxsave64`.
#[repr(C, align(16))]
pub struct SseState([u8; AREA_BYTES]);

/// Bytes of the area.
pub const AREA_BYTES: usize = 512;
/// The instruction writes this much of it.
const WRITTEN: usize = 416;
/// Exceptions in a status or a mask.
const EXCEPTIONS: u32 = 0x3f;
/// The bits of MXCSR on a CPU that does not say which it has.
const OLDEST_MXCSR: u32 = 0xffbf;

impl SseState {
    /// The area as a program may see it: what no instruction has written is 0.
    pub fn for_a_program(&self) -> [u8; AREA_BYTES] {
        let mut bytes = [0; AREA_BYTES];
        bytes[..WRITTEN].copy_from_slice(&self.0[..WRITTEN]);
        bytes
    }

    /// Takes a program's bytes over. The state is one that an entry has saved. False where MXCSR has bits
    /// that the CPU does not have: nothing has changed then.
    #[must_use]
    pub fn set(&mut self, bytes: [u8; AREA_BYTES]) -> bool {
        let mask = match self.word(28) {
            0 => OLDEST_MXCSR,
            mask => mask,
        };
        let taken = Self(bytes);
        let possible = taken.mxcsr() & !mask == 0;
        if possible {
            *self = taken;
        }
        possible
    }

    /// x87 exceptions that are raised and not masked, one bit each.
    pub fn x87_exceptions(&self) -> u32 {
        let (control, status) = (self.word(0) & 0xffff, self.word(0) >> 16);
        status & !control & EXCEPTIONS
    }

    /// SSE exceptions that are raised and not masked, by the same bits.
    pub fn sse_exceptions(&self) -> u32 {
        let mxcsr = self.mxcsr();
        mxcsr & !(mxcsr >> 7) & EXCEPTIONS
    }

    fn mxcsr(&self) -> u32 {
        self.word(24)
    }

    fn word(&self, at: usize) -> u32 {
        self.0[at..][..4].iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte))
    }

    /// As after reset, exceptions masked: control word 0x37f, MXCSR 0x1f80.
    pub const fn fresh() -> Self {
        let mut state = [0; AREA_BYTES];
        (state[0], state[1]) = (0x7f, 0x03);
        (state[24], state[25]) = (0x80, 0x1f);
        Self(state)
    }
}
