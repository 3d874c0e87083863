//! The identity of a mapping's private copies.

use core::fmt;

/// The identity of a mapping's private copies (Linux: `anon_vma`).
///
/// A mapping has none until its first private copy is made, and then keeps it until it is unmapped. Copies
/// belong to an identity, not to a mapping, so pieces of one mapping share it and may be joined again;
/// mappings with different identities may not.
///
/// | value | meaning |
/// |---|---|
/// | 0 | no private copy was ever made |
/// | bit 48 clear | an identity made in this address space |
/// | bit 48 set | *inherited*: made by a fork, its copies may still belong to an ancestor |
///
/// The bits above are always clear.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct AnonId(u64);

impl AnonId {
    /// No private copy was ever made.
    pub const NONE: Self = Self(0);
    /// Bits that an identity takes.
    pub const BITS: u32 = 49;
    const INHERITED: u64 = 1 << (Self::BITS - 1);

    /// An identity made in this address space, from a number: never [`NONE`](Self::NONE). Of a number of more
    /// than 48 bits it has the low ones.
    pub const fn new(number: u64) -> Self {
        let low = number & (Self::INHERITED - 1);
        Self(if low == 0 { Self::INHERITED - 1 } else { low })
    }
    /// The identity of that number, made by a fork.
    pub const fn inherited(number: u64) -> Self {
        Self(Self::new(number).0 | Self::INHERITED)
    }
    /// The identity whose [`bits`](Self::bits) these are.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }
    /// The value, as the table above lists it.
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// Whether this is no identity.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
    /// Whether a fork made it.
    pub const fn is_inherited(self) -> bool {
        self.0 & Self::INHERITED != 0
    }
    /// Whether copies of the two may lie in one mapping: they are equal, or one is none. An inherited
    /// identity agrees only with itself, or a fork's descendants would share ever more.
    pub const fn agrees(self, other: Self) -> bool {
        if self.is_none() {
            !other.is_inherited()
        } else if other.is_none() {
            !self.is_inherited()
        } else {
            self.0 == other.0
        }
    }
    /// This identity, or the other where this is none.
    pub const fn or(self, other: Self) -> Self {
        if self.is_none() { other } else { self }
    }
}

impl fmt::Debug for AnonId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_none(), self.is_inherited()) {
            (true, _) => f.write_str("anon none"),
            (_, false) => write!(f, "anon {}", self.0),
            (_, true) => write!(f, "anon {} inherited", self.0 & (Self::INHERITED - 1)),
        }
    }
}
