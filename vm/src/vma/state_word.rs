//! The state word of a mapping's record: its values and how they may change, as pure functions from the old
//! word to the new. [`Vma`](super::Vma) has the table of states.

use super::{AnonId, VmaState};

/// Bits 0 and 1: the state.
const STATE: u64 = 3;
/// One reader that holds the record.
const READER: u64 = STATE + 1;
/// Where the identity begins.
const SHIFT: u32 = u64::BITS - AnonId::BITS;
/// The bits between: readers that hold the record, more than there are CPUs.
const READERS: u64 = (1 << SHIFT) - READER;

pub const fn of(state: VmaState, anon: AnonId) -> u64 {
    anon.bits() << SHIFT | state as u64
}
pub const fn state(word: u64) -> VmaState {
    match word & STATE {
        1 => VmaState::Live,
        2 => VmaState::Busy,
        3 => VmaState::Frozen,
        _ => VmaState::Stale,
    }
}
pub const fn anon(word: u64) -> AnonId {
    AnonId::from_bits(word >> SHIFT)
}
/// Whether the record is valid, live or frozen: bit 0.
pub const fn is_true(word: u64) -> bool {
    word & VmaState::Live as u64 != 0
}
/// Whether a reader holds the record.
pub const fn is_held(word: u64) -> bool {
    word & READERS != 0
}
/// Live and without an identity.
const fn is_blank(word: u64) -> bool {
    word & !READERS == of(VmaState::Live, AnonId::NONE)
}
const fn with_state(word: u64, state: VmaState) -> u64 {
    word & !STATE | state as u64
}
/// Busy to live.
pub fn made_live(word: u64) -> Option<u64> {
    (state(word) == VmaState::Busy).then(|| with_state(word, VmaState::Live))
}
/// Live, or busy still, to busy.
pub fn made_busy(word: u64) -> Option<u64> {
    matches!(state(word), VmaState::Live | VmaState::Busy).then(|| with_state(word, VmaState::Busy))
}
/// Any state to stale.
pub const fn marked_stale(word: u64) -> u64 {
    with_state(word, VmaState::Stale)
}
/// Live without an identity, held by no reader, to frozen.
pub fn frozen(word: u64) -> Option<u64> {
    (word == of(VmaState::Live, AnonId::NONE)).then(|| of(VmaState::Frozen, AnonId::NONE))
}
/// As [`frozen`], held by any number of readers.
pub fn frozen_while_held(word: u64) -> Option<u64> {
    is_blank(word).then(|| with_state(word, VmaState::Frozen))
}
/// Frozen to live.
pub fn thawed(word: u64) -> Option<u64> {
    (state(word) == VmaState::Frozen).then(|| with_state(word, VmaState::Live))
}
/// Live without an identity to live with one.
pub fn given(word: u64, id: AnonId) -> Option<u64> {
    is_blank(word).then(|| word | id.bits() << SHIFT)
}
/// A valid record with one reader more, if the bits have room for it.
pub fn with_reader(word: u64) -> Option<u64> {
    (is_true(word) && word & READERS != READERS).then(|| word + one_reader())
}
/// What a reader that leaves subtracts.
pub fn one_reader() -> u64 {
    if mutant!("vma.reader-not-counted") { 0 } else { READER }
}
