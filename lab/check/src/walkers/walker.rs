//! What walks, and what it must find.

use super::writers::{BASE, FAR, Memory, PAGES, stamp};
use interleaf::frame::PinnedFrame;
use interleaf::machine::Format;
use interleaf::space::{AddressSpace, FrameRecord, MemlockLimit, PinnedPages};
use interleaf::table::{NoteUse, StaleTranslation};
use interleaf::units::{Access, Pfn, Rights, VirtAddr, Vpn, VpnRange};
use interleaf_lab::machine::baton::Baton;
use interleaf_lab::machine::soft::SoftMachine;

type Machine<F> = SoftMachine<Baton, F>;
/// Pins of a walker, dropped when its run is over: dropping them may free frames, which takes locks.
pub(super) type Pins<'a, 'v, F> =
    Vec<PinnedPages<'a, 'v, Machine<F>, [Option<PinnedFrame<'v, Machine<F>>>; 1]>>;

/// What CPU 2 does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walker {
    /// Scans accessed bits.
    Scan,
    /// The same, and flushes.
    ScanAndFlush,
    /// Translates stores as an emulator, and marks the entries.
    Emulator,
    /// Translates, and searches for frames, as a handler of machine checks.
    MachineCheck,
    /// Reads words and a call chain, as a handler of NMIs, on a CPU that runs the space.
    CallChain,
    /// Pins pages without a lock, to be read.
    FastPin,
    /// Pins pages without a lock, to be written.
    FastPinToWrite,
}

/// What a walker knows of the space.
pub(super) struct Scene<'a, 'v, F: Format> {
    /// The space.
    pub space: &'a AddressSpace<'v, Machine<F>>,
    /// The memory.
    pub memory: Memory,
    /// The first PFN-mapped frame.
    pub pfnmap: Pfn,
    /// The limit of pins.
    pub limit: &'a MemlockLimit<Baton>,
}

/// Times that a walker passes over the memory.
const ROUNDS: u64 = 2;

impl Walker {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Scan,
        Self::ScanAndFlush,
        Self::Emulator,
        Self::MachineCheck,
        Self::CallChain,
        Self::FastPin,
        Self::FastPinToWrite,
    ];

    /// Whether it may stop for ever: not where it waits for a flush itself, under the locks of that.
    pub(super) fn may_stop(self) -> bool {
        self != Self::ScanAndFlush
    }

    /// Walks, and asserts what it finds.
    pub(super) fn walk<'a, 'v, F: Format>(self, scene: &Scene<'a, 'v, F>, pins: &mut Pins<'a, 'v, F>) {
        for _ in 0..ROUNDS {
            match self {
                Self::Scan => scene.scan(),
                Self::ScanAndFlush => scene.scan_and_flush(),
                Self::Emulator => scene.emulate(),
                Self::MachineCheck => scene.look_up(),
                Self::CallChain => scene.read_words(),
                Self::FastPin => scene.pin(Access::Read, pins),
                Self::FastPinToWrite => scene.pin(Access::Write, pins),
            }
        }
    }
}

impl<'a, 'v, F: Format> Scene<'a, 'v, F> {
    /// The ranges that writers change.
    fn ranges(&self) -> [VpnRange; 2] {
        let from = |addr, pages| VpnRange::new(VirtAddr(addr).vpn(), VirtAddr(addr).vpn().add(pages));
        [from(BASE, PAGES), from(FAR, 2)]
    }

    /// The pages of the ranges, with their numbers.
    fn pages(&self) -> impl Iterator<Item = (u64, Vpn)> {
        let all = self.ranges().into_iter().flat_map(|range| (range.start.0..range.end.0).map(Vpn));
        (0..).zip(all)
    }

    fn scan(&self) {
        for range in self.ranges() {
            let reading = self.space.vm().read();
            let scan = self.space.walker().scan_accessed(range, &reading, |pages, leaf| {
                assert!(leaf.accessed && pages.overlaps(range), "{pages:?} of {range:?}: {leaf:?}");
            });
            assert!(scan.accessed <= scan.leaves && scan.leaves <= range.len());
        }
    }

    fn scan_and_flush(&self) {
        for range in self.ranges() {
            let scan = self.space.walker().scan_accessed_and_flush(range, |_, leaf| assert!(leaf.accessed));
            assert!(scan.accessed <= scan.leaves && scan.leaves <= range.len());
        }
    }

    fn emulate(&self) {
        // So that there is something to mark.
        self.scan();
        for (nr, page) in self.pages() {
            let reading = self.space.vm().read();
            for access in [Access::Read, Access::Write] {
                let led =
                    self.space.walker().translate_access(page.addr(), access, NoteUse::AsHardware, &reading);
                if let Ok(led) = led {
                    self.assert_known(nr, page, led);
                    assert!(led.rights.contains(access.needs()) && led.accessed);
                }
            }
        }
    }

    fn look_up(&self) {
        let section = self.space.vm().read_in_handler();
        for (nr, page) in self.pages() {
            let Ok(led) = self.space.walker().translate_in_handler(page.addr(), &section) else { continue };
            self.assert_known(nr, page, led);
            for range in self.ranges() {
                let found = self.space.walker().find_frame_in_handler(led.pfn, range, 100, &section);
                assert!(found.page.is_none_or(|page| range.contains(page)));
                let zero = self.space.vm().memory().zero_frame();
                let is_pfn = !led.owned && led.pfn != zero;
                assert!(!is_pfn || found.page.is_none_or(|it| it == page), "{led:?} at {found:?} too");
            }
        }
    }

    /// A page leads to a frame that it may have had.
    fn assert_known(&self, nr: u64, page: Vpn, led: StaleTranslation) {
        let all = Rights::READ | Rights::WRITE | Rights::USER | Rights::EXECUTE;
        assert!(all.contains(led.rights), "{led:?}");
        let memory = self.space.vm().memory();
        if led.owned {
            assert!(memory.meta(led.pfn).is_some(), "page {nr} leads to no memory: {led:?}");
        } else if led.pfn != memory.zero_frame() {
            let inside = page.0 - VirtAddr(BASE).vpn().0;
            assert!(self.memory.leaf().is_some(), "page {nr} leads to a PFN-mapped frame: {led:?}");
            assert_eq!(led.pfn, self.pfnmap.add(inside), "page {nr} leads to the frame of another");
        }
    }

    fn read_words(&self) {
        for (nr, page) in self.pages() {
            let section = self.space.vm().read_in_handler();
            if let Ok(word) = self.space.walker().read_word_in_handler(page.addr(), &section) {
                self.assert_word(nr, word);
            }
            let chain = self.space.walker().call_chain(page.addr(), FrameRecord::X86_64, 3, &section);
            assert_eq!(chain.count(), 0, "the word after the first is 0 on all pages");
        }
    }

    fn assert_word(&self, nr: u64, word: u64) {
        let stored = u64::from(stamp(nr));
        assert!(word == 0 || word == stored, "page {nr} held {word:#x}, which nobody stored there");
    }

    fn pin(&self, access: Access, pins: &mut Pins<'a, 'v, F>) {
        for (nr, page) in self.pages() {
            let reading = self.space.vm().read();
            let pinned = self.space.try_pin_fast(page.addr(), access, self.limit, [None], &reading);
            drop(reading);
            let Ok(pinned) = pinned else { continue };
            let pfn = pinned.frames().next().map(PinnedFrame::pfn).expect("one page");
            let mut word = [0; 8];
            self.space.vm().machine().read(pfn, 0, &mut word);
            self.assert_word(nr, u64::from_ne_bytes(word));
            pins.push(pinned);
        }
    }
}
