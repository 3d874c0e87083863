//! The obvious implementation of Linux's memory calls: what it does, without any thought of how fast.
//!
//! One sorted map of mappings, one of pages, one of shared objects; every call walks what it needs page by
//! page or mapping by mapping. There are no locks, no tables, no frames. It stands beside the host's Linux
//! (do both say the same?) and beside the library (does the fast one agree with the obvious one?), so it
//! follows Linux even where Linux is odd: which check comes first, what is left when a call fails halfway,
//! and which neighbours become one line of `/proc/self/maps`. `docs/design/linux-semantics.md` tells the same
//! as tables.
//!
//! `fork` copies the map of pages; that frames are shared until they are written shows nowhere.
//!
//! A private mapping of an object keeps copies of its pages where it keeps those of anonymous memory.
//!
//! Not modelled: files but one, growing stacks, mlock, protection keys (execute-only mappings are readable
//! here). Where Linux and the library differ, the setting says which of the two the model follows.

mod advise;
mod brk;
mod contents;
mod fault;
mod file;
mod fork;
mod huge;
mod map;
mod mapping;
mod place;
mod policy;
mod protect;
mod remap;
mod sizes;
mod spaces;
mod unmap;

use crate::calls::{Call, CallResult, Errno, HugeLeaves, MapLine, Outcome, PAGE, PageState, System};
use crate::setting::Setting;
use contents::Contents;
use huge::Regions;
use mapping::Mappings;
pub use mapping::{Anon, Mapping, VmFlags};
pub use policy::Policy;
pub use spaces::Spaces;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A private page that was touched.
#[derive(Clone, Debug)]
enum Page {
    /// Only read: the shared zero page.
    Zero,
    /// Written: a page of its own.
    Own(Contents),
}

/// Shared anonymous memory: its pages by number within the object. It lives while a mapping names it.
type Object = BTreeMap<u64, Contents>;

/// All shared memory there is.
#[derive(Clone, Debug, Default)]
struct Objects {
    contents: BTreeMap<u32, Object>,
    /// How many pages those have that were made with a mapping.
    lengths: BTreeMap<u32, u64>,
    next: u32,
    /// What other spaces map.
    held: BTreeSet<u32>,
    /// The one file.
    file: Option<file::File>,
    /// Number of the last huge page.
    next_folio: u32,
    /// The huge pages of which other spaces have parts.
    held_folios: BTreeSet<u32>,
}

impl Objects {
    fn new_object(&mut self) -> u32 {
        self.next += 1;
        self.contents.insert(self.next, Object::new());
        self.next
    }
}

/// One address space.
#[derive(Clone, Debug)]
pub struct Model {
    setting: Setting,
    mappings: Mappings,
    /// Touched private pages, by address: of anonymous memory, and copies of objects' pages.
    pages: BTreeMap<u64, Page>,
    regions: Regions,
    objects: Objects,
    /// End of the heap in bytes.
    brk: u64,
    next_anon: u32,
}

impl Model {
    /// An empty address space: all of it except the windows of `setting` is taken by foreign mappings.
    #[must_use]
    pub fn new(setting: Setting) -> Self {
        Self::beside(setting, Objects::default())
    }

    /// An empty address space where there are objects of others.
    fn beside(setting: Setting, objects: Objects) -> Self {
        let mut model = Self {
            mappings: Mappings::default(),
            pages: BTreeMap::new(),
            regions: Regions::default(),
            objects,
            brk: setting.start_brk,
            next_anon: 0,
            setting,
        };
        let [low, main] = model.setting.windows.clone();
        let (first, last) = (model.setting.min_addr, model.setting.task_end);
        for foreign in [first..low.start, low.end..main.start, main.end..last] {
            let object = Some(model.new_object());
            let flags = VmFlags::SHARED | VmFlags::NORESERVE;
            model.mappings.insert(Mapping {
                start: foreign.start,
                end: foreign.end,
                flags,
                object,
                offset: 0,
                anon: None,
                policy: None,
            });
        }
        model
    }

    /// Carries out one call.
    pub fn call(&mut self, call: &Call) -> CallResult {
        let done = match *call {
            Call::Mmap { hint, len, prot, flags } => self.mmap(hint, len, prot, flags),
            Call::Words { number, words } => self.words(number, words),
            Call::Munmap { addr, len } => self.munmap(addr, len),
            Call::Mprotect { addr, len, prot } => self.mprotect(addr, len, prot.bits().into()),
            Call::Mremap { addr, old_len, new_len, flags, to } => {
                self.mremap([addr, old_len, new_len, flags, to])
            }
            Call::Madvise { addr, len, advice } => self.madvise(addr, len, advice),
            Call::Mbind { addr, len, mode, nodes, flags } => self.mbind(addr, len, mode, nodes, flags),
            Call::Brk { addr } => Ok(self.set_brk(addr)),
            Call::Mincore { addr, len } => return self.mincore(addr, len),
            Call::Msync { addr, len, flags } => self.msync(addr, len, flags),
            Call::File(call) => return self.file_call(call),
            Call::Read { addr } => return self.read(addr),
            Call::Write { addr, value } => return self.write(addr, value),
        };
        self.cut_for_mappings();
        done.map_or_else(CallResult::Error, CallResult::Value)
    }

    /// What the words say that other calls cannot: the offset of mmap, which anonymous memory ignores but for
    /// its place in a page, and rights of mprotect beyond 32 bits. No word else is read further.
    fn words(&mut self, number: u64, words: [u64; 6]) -> Result<u64, Errno> {
        let call = Call::Words { number, words };
        match call.plain() {
            Call::Mmap { hint, len, prot, flags } if call.maps_file() => {
                self.mmap_file(hint, len, prot, flags, words[5])
            }
            Call::Mmap { .. } if !words[5].is_multiple_of(PAGE) => Err(Errno::EINVAL),
            Call::Mmap { hint, len, prot, flags } => self.mmap(hint, len, prot, flags),
            Call::Mprotect { addr, len, .. } => self.mprotect(addr, len, words[2]),
            Call::Madvise { addr, len, advice } => self.madvise(addr, len, advice),
            _ => Err(Errno::ENOSYS),
        }
    }

    /// The merged map within the windows.
    #[must_use]
    pub fn map(&self) -> Vec<MapLine> {
        let mut seen = Vec::new();
        let inside = |m: &&Mapping| self.setting.windows.iter().any(|window| window.contains(&m.start));
        let line = |m: &Mapping| {
            let object = m.object.map(|object| {
                let known = seen.iter().position(|&other| other == object);
                let number = known.unwrap_or_else(|| {
                    seen.push(object);
                    seen.len() - 1
                });
                (number as u32, m.offset * PAGE)
            });
            MapLine { start: m.start, end: m.end, prot: m.flags.prot(), object }
        };
        self.mappings.iter().filter(inside).map(line).collect()
    }

    /// What the page at `addr` holds, if it is resident.
    #[must_use]
    pub fn page(&self, addr: u64) -> Option<PageState> {
        self.page_among(&self.objects, addr)
    }

    fn page_among(&self, objects: &Objects, addr: u64) -> Option<PageState> {
        let mapping = self.mappings.at(addr)?;
        match (self.pages.get(&(addr / PAGE * PAGE)), mapping.object) {
            (Some(Page::Zero), _) => Some(PageState::Zero),
            (Some(Page::Own(contents)), _) => Some(PageState::Own(contents.print())),
            (None, Some(object)) => {
                let contents = objects.contents.get(&object)?.get(&mapping.page_offset(addr))?;
                Some(PageState::Shared(contents.print()))
            }
            (None, None) => None,
        }
    }

    /// The huge leaves.
    #[must_use]
    pub fn huge_leaves(&self) -> HugeLeaves {
        HugeLeaves::new(self.regions.leaves(&self.setting.huge_window()), &self.map())
    }

    /// The mappings themselves, for tests of attributes that the map does not show.
    pub fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.mappings.iter()
    }

    fn new_object(&mut self) -> u32 {
        self.objects.new_object()
    }

    /// How many mappings there may be here: the foreign ones that are not modelled count too.
    fn most_mappings(&self) -> usize {
        self.setting.max_mappings - self.setting.foreign_mappings
    }

    /// Refuses to commit more pages than the machine has.
    fn commit(&self, pages: u64) -> Result<(), Errno> {
        if pages > self.setting.memory_pages { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    /// The resident pages of a looked-at range, upwards.
    fn resident(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, PageState)> {
        let pages = (range.start..range.end).step_by(PAGE as usize);
        pages.filter_map(|addr| Some((addr, self.page(addr)?)))
    }
}

impl System for Model {
    fn name(&self) -> &str {
        "model"
    }

    fn run(&mut self, calls: &[Call]) -> Outcome {
        *self = Self::new(self.setting.clone());
        let answers = calls.iter().map(|call| self.call(call)).collect();
        let pages = self.setting.looked_at().iter().flat_map(|range| self.resident(range)).collect();
        Outcome { answers, map: self.map(), pages, huge: self.huge_leaves() }
    }
}
