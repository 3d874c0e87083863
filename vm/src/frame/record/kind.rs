//! What a frame is used for.

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Not memory, in use since boot, or inside a larger block.
    Reserved = 0,
    /// Head of a free block in its zone's lists.
    Free = 1,
    /// In a CPU's cache.
    Cached = 2,
    /// Allocated, and not put to a use yet: only its owner knows it.
    Taken = 3,
    /// A table page.
    Table = 4,
    /// Divided into objects by a slab pool.
    Slab = 5,
    /// Anonymous user memory.
    User = 6,
    /// Memory of an object, whether its mappings are shared or private.
    Object = 7,
    /// A zero page. Its refcount and mapcount are ignored.
    Zero = 8,
}

impl Kind {
    pub(super) const fn from_bits(bits: u64) -> Self {
        match bits {
            1 => Kind::Free,
            2 => Kind::Cached,
            3 => Kind::Taken,
            4 => Kind::Table,
            5 => Kind::Slab,
            6 => Kind::User,
            7 => Kind::Object,
            8 => Kind::Zero,
            _ => Kind::Reserved,
        }
    }

    /// Whether several holders may have references, so that the word changes by read-modify-writes.
    pub const fn is_counted(self) -> bool {
        matches!(self, Kind::User | Kind::Object)
    }
}
