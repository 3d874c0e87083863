//! What a load of untouched memory finds: policy.

/// What is mapped by a load of private memory that was never written, where a huge page is allowed. Elsewhere
/// it is the zero page of one frame. (Linux: `use_zero_page`.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ZeroPagePolicy {
    /// The huge zero page, by a huge leaf: no memory, and no table.
    #[default]
    Huge,
    /// A table of zero pages of one frame, which all huge slots share: no memory, and no table of their own.
    /// As `Small` where the format [cannot say so](crate::machine::Format::SHOWS_BY_TABLE).
    Virtual,
    /// The zero page of one frame, by a table: no memory but the table.
    Small,
    /// A huge page of its own.
    None,
}
