//! Calls whose allocations are refused, one after the other.

/// Plays a call with its first allocation refused, then with its second, and so on, until it says that it has
/// come to its end before. Returns how many it has.
pub(in crate::space::tests) fn each_allocation(mut is_struck: impl FnMut(u64) -> bool) -> u64 {
    let mut nth = 1;
    while is_struck(nth) {
        nth += 1;
    }
    nth - 1
}
