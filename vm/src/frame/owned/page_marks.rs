//! Marks of pages in the slots of an index.

/// Marks lie above a slot's tag.
pub(super) const MARK_SHIFT: u32 = 8;

/// What is to be done with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageMarks(u8);

impl PageMarks {
    /// Nothing.
    pub(crate) const NONE: Self = Self(0);
    /// It was stored to since it was written back.
    pub(crate) const DIRTY: Self = Self(1);
    /// It is being written back.
    pub(crate) const WRITING: Self = Self(2);

    /// Those of a slot's word.
    pub(super) const fn of(word: u64) -> Self {
        Self((word >> MARK_SHIFT) as u8)
    }

    /// Their bits in such a word.
    pub(super) const fn bits(self) -> u64 {
        (self.0 as u64) << MARK_SHIFT
    }

    /// Whether it has all of these.
    pub(crate) const fn contains(self, marks: Self) -> bool {
        self.0 & marks.0 == marks.0
    }

    /// Whether it has none.
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}
