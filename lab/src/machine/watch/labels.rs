//! Names of addresses, so that reports speak of `frame record 12 .refcount`.

use std::collections::BTreeMap;
use std::ops::Range;

/// A field of a record that is named as part of an array.
#[derive(Clone, Debug)]
pub struct Field {
    /// Where it starts in the record.
    pub offset: usize,
    /// Its name.
    pub name: &'static str,
}

/// Labels of address ranges. A later label takes precedence over an earlier one that contains it.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// By start; ranges nest or are disjoint.
    ranges: BTreeMap<(usize, std::cmp::Reverse<usize>), Label>,
}

#[derive(Clone, Debug)]
struct Label {
    end: usize,
    name: String,
    /// Bytes of one record, where the range is an array of them; 0 otherwise.
    stride: usize,
    /// Number of the first record.
    first: u64,
    fields: Vec<Field>,
}

impl Labels {
    /// No names.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names a range. Addresses in it are called by the name and their distance from the start.
    pub fn add(&mut self, range: Range<usize>, name: impl Into<String>) {
        self.insert(range, Label { end: 0, name: name.into(), stride: 0, first: 0, fields: Vec::new() });
    }

    /// Names a value.
    pub fn add_value<T>(&mut self, value: &T, name: impl Into<String>) {
        let start = (&raw const *value).addr();
        self.add(start..start + size_of::<T>(), name);
    }

    /// Names an array of records of `stride` bytes, the first of which has the number `first`.
    ///
    /// # Panics
    /// Where `stride` is 0.
    pub fn add_array(
        &mut self,
        range: Range<usize>,
        stride: usize,
        first: u64,
        name: impl Into<String>,
        fields: &[Field],
    ) {
        assert!(stride > 0);
        let mut fields = fields.to_vec();
        fields.sort_by_key(|field| field.offset);
        self.insert(range, Label { end: 0, name: name.into(), stride, first, fields });
    }

    /// Name of what lies at `addr`; the address itself where it has no name.
    pub fn name(&self, addr: usize) -> String {
        let before = self.ranges.range(..=(addr, std::cmp::Reverse(0))).rev();
        match before.map(|(key, label)| (key.0, label)).find(|(_, label)| addr < label.end) {
            Some((start, label)) => label.of(addr - start),
            None => format!("{addr:#x}"),
        }
    }

    fn insert(&mut self, range: Range<usize>, label: Label) {
        self.ranges.insert((range.start, std::cmp::Reverse(range.end)), Label { end: range.end, ..label });
    }
}

impl Label {
    fn of(&self, offset: usize) -> String {
        if self.stride == 0 {
            return if offset == 0 { self.name.clone() } else { format!("{}+{offset:#x}", self.name) };
        }
        let (record, within) = (self.first + (offset / self.stride) as u64, offset % self.stride);
        match self.fields.iter().rev().find(|field| field.offset <= within) {
            Some(field) => format!("{} {record} .{}", self.name, field.name),
            None => format!("{} {record}+{within:#x}", self.name),
        }
    }
}

#[cfg(test)]
#[path = "tests/labels.rs"]
mod tests;
