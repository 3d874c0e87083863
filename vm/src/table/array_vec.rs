//! A few values, gathered under a lock or in a read section and handed on after it.

#![forbid(unsafe_code)]

/// At most `N` values, in the order in which they came.
pub(crate) struct ArrayVec<T, const N: usize> {
    values: [Option<T>; N],
    len: usize,
}

impl<T: Copy, const N: usize> ArrayVec<T, N> {
    /// No values.
    pub const fn new() -> Self {
        Self { values: [None; N], len: 0 }
    }

    /// Whether there is no room for one more.
    pub const fn is_full(&self) -> bool {
        self.len == N
    }

    /// Adds a value.
    ///
    /// # Panics
    /// If there is no room.
    pub fn push(&mut self, value: T) {
        self.values[self.len] = Some(value);
        self.len += 1;
    }

    /// The values.
    pub fn into_values(self) -> impl Iterator<Item = T> {
        self.values.into_iter().flatten()
    }
}
