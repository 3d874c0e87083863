//! Several address spaces that may map the same shared memory.

use super::mapping::{Mapping, Sides, VmFlags};
use super::{Model, Objects};
use crate::calls::{Call, CallResult, Errno, FileCall, HugeLeaves, MapLine, PageState};
use crate::setting::Setting;
use std::mem::swap;
use std::ops::Range;

/// Spaces, and the objects that they map. Only the space that is called has the objects.
#[derive(Clone, Debug)]
pub struct Spaces {
    spaces: Vec<Model>,
    objects: Objects,
}

impl Spaces {
    /// Empty spaces.
    #[must_use]
    pub fn new(setting: &Setting, count: usize) -> Self {
        let mut all = Self { spaces: Vec::new(), objects: Objects::default() };
        for _ in 0..count {
            let mut space = Model::beside(setting.clone(), std::mem::take(&mut all.objects));
            swap(&mut space.objects, &mut all.objects);
            all.spaces.push(space);
        }
        all
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.spaces.len()
    }

    /// Carries out one call in a space.
    pub fn call(&mut self, space: usize, call: &Call) -> CallResult {
        let answer = self.visit(space, |model| model.call(call));
        if let (Call::File(FileCall::Truncate { len }), CallResult::Value(_)) = (call, &answer)
            && let Some(file) = self.objects.file
        {
            self.spaces.iter_mut().for_each(|model| model.drop_beyond_end(file.object, *len));
        }
        answer
    }

    /// A forced store of another process to a space; without a value, what comes before it: the page is made
    /// one that may be stored to.
    pub fn force(&mut self, space: usize, addr: u64, value: Option<u8>) -> CallResult {
        self.visit(space, |model| model.force(addr, value))
    }

    /// Maps the shared mapping that one space has in a range into another, in the same place, where
    /// it has nothing.
    ///
    /// # Panics
    /// Where that is not so.
    pub fn share(&mut self, from: usize, to: usize, range: &Range<u64>) {
        let shown = self.spaces[from].mappings.at(range.start).expect("something is mapped there");
        assert!(shown.object.is_some() && shown.end >= range.end, "one shared mapping");
        let part = Mapping { anon: None, policy: None, ..shown.part(range.start, range.end) };
        self.spaces[to].mappings.insert_merged(part, Sides::Both);
    }

    /// Maps the shared mapping that a space has in a range once more in the same space, private, to be read
    /// and written, from `at` on, where it has nothing.
    ///
    /// # Panics
    /// Where that is not so.
    pub fn map_private(&mut self, space: usize, range: &Range<u64>, at: u64) {
        let shown = self.spaces[space].mappings.at(range.start).expect("something is mapped there");
        assert!(shown.object.is_some() && shown.end >= range.end, "one mapping of an object");
        let part = shown.part(range.start, range.end);
        let flags = VmFlags::READ | VmFlags::WRITE | VmFlags::ACCOUNT;
        let end = at + (range.end - range.start);
        let private = Mapping { start: at, end, flags, anon: None, policy: None, ..part };
        self.spaces[space].mappings.insert_merged(private, Sides::Both);
    }

    /// Forks a space. Returns the number of the child, whose memory is a copy.
    ///
    /// # Errors
    /// That a mapping cannot be committed again.
    pub fn fork(&mut self, space: usize) -> Result<usize, Errno> {
        let child = self.spaces[space].fork()?;
        self.spaces.push(child);
        Ok(self.spaces.len() - 1)
    }

    /// Ends a space: it is empty afterwards. The numbers of the others stay.
    pub fn end(&mut self, space: usize) {
        self.visit(space, Model::end);
    }

    /// The merged map of a space.
    #[must_use]
    pub fn map(&self, space: usize) -> Vec<MapLine> {
        self.spaces[space].map()
    }

    /// The huge leaves of a space.
    #[must_use]
    pub fn huge_leaves(&self, space: usize) -> HugeLeaves {
        self.spaces[space].huge_leaves()
    }

    /// The mappings of a space.
    pub fn mappings(&self, space: usize) -> impl Iterator<Item = &Mapping> {
        self.spaces[space].mappings()
    }

    /// What a page of a space holds, if it is resident.
    #[must_use]
    pub fn page(&self, space: usize, addr: u64) -> Option<PageState> {
        self.spaces[space].page_among(&self.objects, addr)
    }

    /// Number of shared objects that have pages.
    #[must_use]
    pub fn nr_objects(&self) -> usize {
        self.objects.contents.values().filter(|pages| !pages.is_empty()).count()
    }

    fn visit<R>(&mut self, space: usize, f: impl FnOnce(&mut Model) -> R) -> R {
        let others = self.spaces.iter().enumerate().filter(|(other, _)| *other != space);
        self.objects.held_folios = others.clone().flat_map(|(_, model)| model.regions.folios()).collect();
        self.objects.held =
            others.flat_map(|(_, model)| model.mappings().filter_map(|mapping| mapping.object)).collect();
        let model = &mut self.spaces[space];
        swap(&mut self.objects, &mut model.objects);
        let result = f(model);
        swap(&mut self.objects, &mut model.objects);
        result
    }
}
