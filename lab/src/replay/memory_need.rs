//! How many frames a family needs at most at one time, by following what its spaces have.
//!
//! A frame that a space fills belongs to it alone, until a fork shares all that the space has by then. From
//! then on it belongs to the fork, and is there until one of the two sides has ended; what is left passes to
//! the other side, as far as that still has the page:
//!
//! ```text
//!   fork 1 (what the first had before)       the first ends:      fork 2 (with what was left of fork 1)
//!   ├── first (what it filled since)          ────────────►       ├── second
//!   └── fork 2 ── second, third                                    └── third
//! ```
//!
//! A page of a file counts once, whatever maps it, and stays; a private mapping of it may have a copy beside.
//!
//! A page that is touched counts as a frame, though a load finds the zero page; memory that is shared counts
//! until one space alone is left, and unmaps it.

use super::files::{FileNr, FileTable};
use super::life::{Family, Life, Then};
use super::objects::MIDDLE;
use super::page_set::PageSet;
use super::pieces::Pieces;
use super::spans::Spans;
use super::step::{Act, CallStep, Step, has, pages};
use interleaf::space::Sharing;
use interleaf::units::Vpn;
use interleaf_linux_abi::{MREMAP_DONTUNMAP, MapFlags, advice};
use std::ops::Range;

/// Pages of a table of leaves.
const TABLE_PAGES: u64 = 512;
/// Tables for each table of leaves, at most: itself, and two above it.
const TABLES_FOR_ONE: u64 = 3;
/// Mappings whose records and index nodes a frame holds, at least.
const MAPPINGS_PER_FRAME: u64 = 16;
/// Frames for the tables and records that every space has.
const SPACE_FRAMES: u64 = 8;
/// Frames at which nothing more is counted: no machine has as many.
const MOST_FRAMES: u64 = 1 << 28;

/// What of a machine bears on the need.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Whether a fault may fill all that is mapped around it in its table of leaves.
    pub may_be_huge: bool,
    /// Most mappings of a space.
    pub max_mappings: u64,
}

/// Frames for pages, tables and records of all spaces that are alive at one time; at the time when it is
/// most. Ends early where that is more than any machine has.
pub fn frames_at_once(family: &Family, files: &FileTable, setting: Setting) -> u64 {
    let mut need = Need::of(family, files, setting);
    for turn in &family.turns {
        let steps = &family.steps[turn.life];
        for step in &steps.steps[turn.from..turn.to] {
            match *step {
                Step::Nothing | Step::Barred { .. } => {}
                Step::TouchFile { addr, .. } => need.touch_around(turn.life, addr.vpn()),
                Step::Touch { addr, .. } | Step::TouchBeyond { addr, .. } => {
                    need.touch(turn.life, addr.vpn())
                }
                Step::Call(number) => need.call(turn.life, &steps.calls[number as usize]),
            }
            if need.most > MOST_FRAMES {
                return need.most;
            }
        }
        match turn.then {
            Then::Switch => {}
            Then::Fork(child) => need.fork(turn.life, child),
            Then::End => need.end(turn.life),
        }
    }
    need.most
}

/// What a space has.
#[derive(Clone, Debug, Default)]
struct Space {
    /// Its own node in the tree of forks.
    node: usize,
    /// Pages that have entries, its own and those that it shares.
    has: PageSet,
    mapped: Pieces,
    /// The files of its pages, each with the page of it that the page 0 shows, or would show.
    files: Spans<(FileNr, u64)>,
    /// The page at which the heap ends.
    heap_end: u64,
    /// Frames counted for it.
    counted: u64,
}

/// Frames that belong to a space alone, or to the two sides of a fork.
#[derive(Debug)]
struct ForkNode {
    frames: PageSet,
    above: Option<usize>,
    of: Owner,
}

#[derive(Clone, Copy, Debug)]
enum Owner {
    Space(usize),
    Fork([usize; 2]),
}

struct Need {
    spaces: Vec<Space>,
    nodes: Vec<ForkNode>,
    /// Pages of shared memory that some space filled.
    shared: PageSet,
    shared_counted: u64,
    /// Pages of files that some space touched, which stay.
    of_files: PageSet,
    alive: usize,
    setting: Setting,
    now: u64,
    most: u64,
}

impl Need {
    fn of(family: &Family, files: &FileTable, setting: Setting) -> Need {
        let mut spaces = vec![Space::default(); family.lives.len()];
        spaces[0] = Space::at_exec(&family.lives[0], files);
        let first = ForkNode { frames: PageSet::default(), above: None, of: Owner::Space(0) };
        let (nodes, shared, of_files) = (vec![first], PageSet::default(), PageSet::default());
        let (shared_counted, alive, now, most) = (0, 1, 0, 0);
        let mut need = Need { spaces, nodes, shared, shared_counted, of_files, alive, setting, now, most };
        need.count(0);
        need
    }

    /// Frames of a space alone, tables and records among them.
    fn of_space(&self, life: usize) -> u64 {
        let Space { node, has, mapped, .. } = &self.spaces[life];
        let records = mapped.len().min(self.setting.max_mappings) / MAPPINGS_PER_FRAME;
        self.nodes[*node].frames.pages() + has.tables() * TABLES_FOR_ONE + records + SPACE_FRAMES
    }

    /// Counts a space, which may have changed.
    fn count(&mut self, life: usize) {
        let (frames, shared) = (self.of_space(life), self.shared.pages() + self.of_files.pages());
        let before = std::mem::replace(&mut self.spaces[life].counted, frames)
            + std::mem::replace(&mut self.shared_counted, shared);
        self.now = (self.now + frames + shared).saturating_sub(before);
        self.most = self.most.max(self.now);
    }

    fn touch(&mut self, life: usize, page: Vpn) {
        let Space { node, has, mapped, .. } = &self.spaces[life];
        if has.contains(page) && (self.nodes[*node].frames.contains(page) || self.shared.contains(page)) {
            return;
        }
        let table = page.0 / TABLE_PAGES * TABLE_PAGES;
        let around = match self.setting.may_be_huge {
            true => mapped.in_range(table..table + TABLE_PAGES),
            false => Vec::new(),
        };
        around.into_iter().for_each(|some| self.fill(life, some));
        self.fill(life, page.0..page.0 + 1);
        self.count(life);
    }

    /// A load of a file maps pages around its own, and brings others: at most so many on either side.
    fn touch_around(&mut self, life: usize, page: Vpn) {
        self.touch(life, page);
        let Space { has, files, .. } = &mut self.spaces[life];
        let around = page.0.saturating_sub(MIDDLE.into())..page.0 + u64::from(MIDDLE) + 1;
        for (part, (file, origin)) in files.parts(&around) {
            has.add(part.clone());
            self.of_files.add(pages_of_file(*file, origin.wrapping_add(part.start), part.end - part.start));
        }
        self.count(life);
    }

    /// Pages get frames.
    fn fill(&mut self, life: usize, pages: Range<u64>) {
        let len = pages.end.saturating_sub(pages.start);
        if len > MOST_FRAMES {
            self.most = self.most.saturating_add(len);
            return;
        }
        let Space { node, has, mapped, files, .. } = &mut self.spaces[life];
        has.add(pages.clone());
        for (part, (file, origin)) in files.parts(&pages) {
            self.of_files.add(pages_of_file(*file, origin.wrapping_add(part.start), part.end - part.start));
        }
        match mapped.is_shared(pages.start) {
            true => self.shared.add(pages),
            false => self.nodes[*node].frames.add(pages),
        }
    }

    /// Pages lose their frames.
    fn drop_pages(&mut self, life: usize, pages: Range<u64>) {
        let Space { node, has, .. } = &mut self.spaces[life];
        has.remove_pages(pages.clone());
        self.nodes[*node].frames.remove_pages(pages);
    }

    fn unmap(&mut self, life: usize, pages: Range<u64>) {
        self.drop_pages(life, pages.clone());
        self.spaces[life].mapped.unmap(pages.clone());
        self.spaces[life].files.take(&pages);
        if self.alive == 1 {
            self.shared.remove_pages(pages);
        }
    }

    fn map(&mut self, life: usize, pages: Range<u64>, is_shared: bool) {
        self.unmap(life, pages.clone());
        self.spaces[life].mapped.map(pages, is_shared);
    }

    fn call(&mut self, life: usize, call: &CallStep) {
        let place = match u64::try_from(call.expected) {
            Ok(place) => place,
            // Memory in the range refused it: before that it was carried out.
            Err(_) if call.refused.is_some() => 0,
            Err(_) => return,
        };
        self.act(life, call.act, place);
        self.count(life);
    }

    fn act(&mut self, life: usize, act: Act, place: u64) {
        match act {
            Act::Mmap { len, prot, flags, .. } => {
                let is_private = MapFlags::from_bits_retain(flags) & MapFlags::TYPE == MapFlags::PRIVATE;
                self.map(life, in_pages(place, len), !is_private);
                if has(flags, MapFlags::POPULATE) && prot != 0 {
                    self.fill(life, in_pages(place, len));
                }
            }
            Act::MapFile { file, first, request } => {
                let new = in_pages(place, request.len_bytes);
                self.map(life, new.clone(), request.sharing == Sharing::Shared);
                let origin = first.wrapping_sub(new.start);
                self.spaces[life].files.put(new.clone(), (file, origin));
                if request.populate {
                    self.fill(life, new);
                }
            }
            Act::StandIn(request) => {
                let new = in_pages(place, request.len_bytes);
                self.map(life, new.clone(), request.sharing == Sharing::Shared);
                if request.populate {
                    self.fill(life, new);
                }
            }
            Act::Munmap { addr, len } => self.unmap(life, in_pages(addr, len)),
            Act::Mprotect { addr, len, .. } => self.spaces[life].mapped.split(in_pages(addr, len)),
            Act::Madvise { addr, len, advice } => self.advise(life, in_pages(addr, len), advice),
            Act::Brk { .. } => self.move_heap_end(life, place.div_ceil(4096)),
            Act::Mremap { addr, old_len, new_len, flags, .. } => {
                let (from, to) = (in_pages(addr, old_len), in_pages(place, new_len));
                self.remap(life, from, to, flags & MREMAP_DONTUNMAP != 0);
            }
            Act::Msync { .. } | Act::SetThpDisable(_) | Act::Nothing => {}
        }
    }

    fn advise(&mut self, life: usize, pages: Range<u64>, advice: i32) {
        match advice {
            advice::DONTNEED => self.drop_pages(life, pages),
            advice::POPULATE_READ | advice::POPULATE_WRITE | advice::COLLAPSE => {
                let mapped = self.spaces[life].mapped.in_range(pages);
                mapped.into_iter().for_each(|pages| self.fill(life, pages));
                // A collapse copies to a folio of its own.
                self.most = self.most.max(self.now.saturating_add(TABLE_PAGES));
            }
            _ => self.spaces[life].mapped.split(pages),
        }
    }

    fn move_heap_end(&mut self, life: usize, end: u64) {
        let before = std::mem::replace(&mut self.spaces[life].heap_end, end);
        match end < before {
            true => self.unmap(life, end..before),
            // Where the heap begins was not shown to the recorder.
            false if before == 0 => {}
            false => self.spaces[life].mapped.map(before..end, false),
        }
    }

    /// The pages of both places are there at one time: the replay fills the one before it drops the other.
    fn remap(&mut self, life: usize, from: Range<u64>, to: Range<u64>, stays_mapped: bool) {
        let is_shared = self.spaces[life].mapped.is_shared(from.start);
        let file = self.spaces[life].files.at(from.start).map(|(_, file)| *file);
        let (old, new) = (from.end - from.start, to.end - to.start);
        if from.start == to.start {
            match new < old {
                true => self.unmap(life, to.end..from.end),
                false => self.map(life, from.end..to.end, is_shared),
            }
            file.into_iter().for_each(|file| self.spaces[life].files.put(to.clone(), file));
            return;
        }
        let moved = self.spaces[life].has.in_range(from.start..from.start + old.min(new));
        self.map(life, to.clone(), is_shared);
        if let Some((file, origin)) = file {
            let origin = origin.wrapping_add(from.start).wrapping_sub(to.start);
            self.spaces[life].files.put(to.clone(), (file, origin));
        }
        moved.into_iter().map(|page| page - from.start + to.start).for_each(|at| self.fill(life, at..at + 1));
        self.count(life);
        match stays_mapped {
            true => self.drop_pages(life, from),
            false => self.unmap(life, from),
        }
    }

    fn fork(&mut self, parent: usize, child: usize) {
        let fork = self.spaces[parent].node;
        let sides = [self.nodes.len(), self.nodes.len() + 1];
        for life in [parent, child] {
            self.nodes.push(ForkNode {
                frames: PageSet::default(),
                above: Some(fork),
                of: Owner::Space(life),
            });
        }
        self.nodes[fork].of = Owner::Fork(sides);
        self.spaces[parent].node = sides[0];
        self.spaces[child] = Space { node: sides[1], counted: 0, ..self.spaces[parent].clone() };
        self.alive += 1;
        self.now += self.nodes[fork].frames.pages();
        self.count(parent);
        self.count(child);
    }

    fn end(&mut self, life: usize) {
        let Space { node: ended, counted, .. } = std::mem::take(&mut self.spaces[life]);
        self.now = self.now.saturating_sub(counted);
        self.alive -= 1;
        self.nodes[ended].frames = PageSet::default();
        let Some(fork) = self.nodes[ended].above else { return };
        let Owner::Fork(sides) = self.nodes[fork].of else { return };
        let left = if sides[0] == ended { sides[1] } else { sides[0] };
        let frames = std::mem::take(&mut self.nodes[fork].frames);
        let kept = match self.nodes[left].of {
            Owner::Space(life) => Some(&self.spaces[life].has),
            Owner::Fork(_) => None,
        };
        let (shared, own) = (frames.pages(), self.nodes[left].frames.pages());
        self.nodes[left].frames.absorb(frames, kept);
        let joined = self.nodes[left].frames.pages();
        self.now = (self.now + joined).saturating_sub(shared + own);
        if let Owner::Space(life) = self.nodes[left].of {
            self.spaces[life].counted = self.spaces[life].counted + joined - own;
        }
        self.replace(fork, left);
    }

    /// The node takes the place of the fork that is above it.
    fn replace(&mut self, fork: usize, node: usize) {
        let above = self.nodes[fork].above;
        self.nodes[node].above = above;
        if let Some(above) = above
            && let Owner::Fork(sides) = &mut self.nodes[above].of
        {
            sides.iter_mut().filter(|side| **side == fork).for_each(|side| *side = node);
        }
    }
}

impl Space {
    fn at_exec(life: &Life, files: &FileTable) -> Space {
        let mut space = Space { heap_end: life.start.layout.start_brk.div_ceil(4096), ..Space::default() };
        for mapping in &life.start.mappings {
            let pages = mapping.start / 4096..mapping.end / 4096;
            if mapping.name == "[heap]" {
                space.heap_end = pages.end;
            }
            space.mapped.map(pages.clone(), mapping.is_shared());
            if let Some(file) = files.of_mapping(mapping) {
                let origin = (mapping.offset / 4096).wrapping_sub(pages.start);
                space.files.put(pages, (file, origin));
            }
        }
        space
    }
}

/// Pages of a file, among those of all files.
fn pages_of_file(file: FileNr, first: u64, pages: u64) -> Range<u64> {
    const OF_A_FILE: u64 = 1 << 32;
    let first = u64::from(file.0) * OF_A_FILE + first % OF_A_FILE;
    first..first + pages.min(OF_A_FILE)
}

/// The pages that hold a range of bytes.
fn in_pages(addr: u64, len: u64) -> Range<u64> {
    let bytes = pages(addr, len);
    bytes.start / 4096..bytes.end / 4096
}
