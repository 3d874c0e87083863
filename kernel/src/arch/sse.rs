//! The SSE state that an entry saves beside its frame.

/// The area of `fxsave64`.
#[repr(C, align(16))]
pub struct SseState([u8; 512]);

impl SseState {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 512] {
        &self.0
    }

    /// Takes a program's bytes over. Bits that MXCSR does not have would make `fxrstor64` fault: they go.
    pub fn set(&mut self, bytes: [u8; 512]) {
        self.0 = bytes;
        self.0[25] &= 0xff;
        self.0[24] &= 0xbf;
        (self.0[26], self.0[27]) = (0, 0);
    }

    /// As after reset, exceptions masked: control word 0x37f, MXCSR 0x1f80.
    pub(super) const fn fresh() -> Self {
        let mut state = [0; 512];
        (state[0], state[1]) = (0x7f, 0x03);
        (state[24], state[25]) = (0x80, 0x1f);
        Self(state)
    }
}
