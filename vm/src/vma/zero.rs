//! What a load of untouched memory finds: policy.

/// What is mapped by a load of private memory that was never written, where a huge page is allowed. Elsewhere
/// it is the zero page of one frame. (Linux: `use_zero_page`.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ZeroPagePolicy {
    /// The huge zero page, by a huge leaf: no memory, and no table.
    #[default]
    Huge,
    /// The zero page of one frame, by a table: no memory but the table.
    Small,
    /// A huge page of its own.
    None,
}
