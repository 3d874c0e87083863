//! The state word of a mapping's record: its values and how they may change, as pure functions from the old
//! word to the new. [`Vma`](super::Vma) has the table of states.

use super::{AnonId, VmaState};

const SHIFT: u32 = u64::BITS - AnonId::BITS;

pub const fn of(state: VmaState, anon: AnonId) -> u64 {
    anon.bits() << SHIFT | state as u64
}
pub const fn state(word: u64) -> VmaState {
    match word & ((1 << SHIFT) - 1) {
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
/// Busy to live.
pub fn made_live(word: u64) -> Option<u64> {
    (state(word) == VmaState::Busy).then(|| of(VmaState::Live, anon(word)))
}
/// Any other state to stale.
pub fn marked_stale(word: u64) -> Option<u64> {
    (state(word) != VmaState::Stale).then(|| of(VmaState::Stale, anon(word)))
}
/// Live without an identity to frozen.
pub fn frozen(word: u64) -> Option<u64> {
    (word == of(VmaState::Live, AnonId::NONE)).then(|| of(VmaState::Frozen, AnonId::NONE))
}
/// Frozen to live.
pub fn thawed(word: u64) -> Option<u64> {
    (state(word) == VmaState::Frozen).then(|| of(VmaState::Live, anon(word)))
}
/// Live without an identity to live with one.
pub fn given(word: u64, id: AnonId) -> Option<u64> {
    (word == of(VmaState::Live, AnonId::NONE)).then(|| of(VmaState::Live, id))
}
