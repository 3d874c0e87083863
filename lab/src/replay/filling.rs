//! What pages get their frames by: zeroed, or copied from another.

use super::objects::Object;
use super::player::Player;
use super::step::{Act, CallStep};
use super::verdict::Filled;
use interleaf::units::{Pfn, VirtAddr, Vpn, VpnRange};

/// The frames of a page, before something that may give it another.
#[derive(Clone, Copy, Debug)]
pub struct Had {
    /// That of the page: its own, the zero page, or its object's.
    shown: Option<Pfn>,
    /// That of its file.
    of_file: Option<Pfn>,
}

impl Had {
    /// Of a page that is new.
    pub const NOTHING: Had = Had { shown: None, of_file: None };

    /// Of a page as it is.
    pub fn of(page: Vpn, player: &Player<'_, '_>) -> Had {
        let shown = player.space.inspect().resident_frame(page).map(|(frame, _)| frame);
        Had { shown, of_file: player.frame_of_file(page) }
    }

    /// Of a page that shows nothing but its file.
    fn of_file(frame: Option<Pfn>) -> Had {
        Had { shown: frame, of_file: frame }
    }
}

/// Notes what a page got its frame by, and the page of its file, since it had what it `had`.
pub fn note_filled(page: Vpn, had: Had, player: &Player<'_, '_>, filled: &mut Vec<Filled>) {
    let now = Had::of(page, player);
    if let (None, Some(frame)) = (had.of_file, now.of_file) {
        filled.push(Filled::Zeroed(frame));
    }
    let zero = player.space.vm().memory().zero_frame();
    match (had.shown.or(now.of_file), now.shown) {
        (_, None) => {}
        (before, Some(after)) if after == zero || before == Some(after) => {}
        (Some(from), Some(to)) if from != zero => filled.push(Filled::Copied(from, to)),
        (_, Some(after)) => match player.huge_page_at(page) {
            None => filled.push(Filled::Zeroed(after)),
            Some(first) => {
                // Once for all pages that a call makes present.
                let block = Filled::ZeroedFolio(Pfn(after.0 - (page.0 - first.0)));
                if filled.last() != Some(&block) {
                    filled.push(block);
                }
            }
        },
    }
}

/// Notes pages of a file that came because the page cache had them: those that it lacked, and has.
pub fn note_brought(lacking: Option<(Object<'_>, Vec<u64>)>, filled: &mut Vec<Filled>) {
    let Some((object, pages)) = lacking else { return };
    filled.extend(pages.into_iter().filter_map(|page| object.frame_of(page)).map(Filled::Zeroed));
}

/// The pages that a call may make present, with what they had before.
pub struct Filling {
    before: Vec<(Vpn, Had)>,
    /// Those of a new mapping, which replaces the pages that were there.
    new: VpnRange,
}

impl Filling {
    /// Before the call, which makes `populated` present.
    pub fn before(call: &CallStep, populated: VpnRange, player: &Player<'_, '_>) -> Filling {
        let nothing = VpnRange::new(populated.start, populated.start);
        match call.act {
            _ if populated.is_empty() => Filling { before: Vec::new(), new: nothing },
            Act::Madvise { .. } => {
                let bytes = populated.start.addr().0..populated.end.addr().0;
                let mapped = player.mappings(bytes).map(|vma| vma.range.intersect(populated));
                let pages = mapped.flat_map(|part| (part.start.0..part.end.0).map(Vpn));
                let before = pages.map(|page| (page, Had::of(page, player))).collect();
                Filling { before, new: nothing }
            }
            Act::MapFile { file, first, .. } => {
                let object = player.objects.get(file).ok();
                let frame = |at: u64| object.as_ref().and_then(|object| object.frame_of(first + at));
                let pages = 0..populated.len();
                let before = pages.map(|at| (populated.start.add(at), Had::of_file(frame(at)))).collect();
                Filling { before, new: nothing }
            }
            _ => Filling { before: Vec::new(), new: populated },
        }
    }

    /// After the call.
    pub fn note(self, player: &Player<'_, '_>, filled: &mut Vec<Filled>) {
        for (page, had) in self.before {
            note_filled(page, had, player, filled);
        }
        let new = self.new.start.addr().0..self.new.end.addr().0;
        for page in player.pages_with_entries(new) {
            // What was moved has its file's pages.
            note_filled(page, Had::of_file(player.frame_of_file(page)), player, filled);
        }
    }
}

/// The pages that a call makes present itself; advice that failed has done so up to a hole, or to a mapping
/// without rights.
pub fn populated(call: &CallStep, player: &Player<'_, '_>) -> VpnRange {
    let (start, pages) = match call.act {
        Act::Madvise { addr, .. } if call.expected < 0 => {
            let asked = call.act.populated_pages();
            (addr, if asked == 0 { 0 } else { asked.min(player.accessible_pages(VirtAddr(addr))) })
        }
        Act::Madvise { addr, .. } => (addr, call.populated_pages()),
        _ => (call.expected as u64, call.populated_pages()),
    };
    let first = VirtAddr(start).vpn();
    VpnRange::new(first, first.add(pages))
}
