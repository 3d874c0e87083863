//! Pins: odd addresses, buffers that lie, and pins that are dropped in any order, some of them late.

use crate::odd;
use crate::world::Lab;
use crate::{call, called};
use interleaf::frame::PinnedFrame;
use interleaf::space::{AddressSpace, MapRequest, MemlockLimit, PinnedPages, Sharing, Vm};
use interleaf::units::{Access, VirtAddr};
use interleaf::vma::VmaFlags;

type Slot<'v> = Option<PinnedFrame<'v, Lab>>;

/// Calls every function of pins with a space that this CPU runs.
pub fn run(vm: &Vm<'_, Lab>, space: &AddressSpace<'_, Lab>) {
    let base = space.map(&MapRequest::anonymous(16 * 4096)).expect("room");
    let shared = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(16 * 4096) };
    let object = space.map(&shared).expect("room");
    let limit = call!(MemlockLimit::new, 40).expect("a limit");
    let none = call!(MemlockLimit::new, u64::MAX).expect("a limit");
    let mut kept = Vec::new();
    for (nth, addr) in odd::virt_addrs().chain([base, object]).enumerate() {
        for access in [Access::Read, Access::Write, Access::Execute] {
            for len in [0, 1, 7, 16, 41] {
                let limit = if nth % 2 == 0 { &limit } else { &none };
                let slots: Vec<Slot<'_>> = (0..len).map(|_| None).collect();
                let Some(Ok(pins)) = call!(AddressSpace::pin_pages, space, addr, access, limit, slots) else {
                    continue;
                };
                assert_eq!(call!(PinnedPages::is_empty, &pins), Some(len == 0));
                fast(vm, space, addr, access, len);
                let frames = called!(PinnedPages::frames => pins.frames().count());
                assert_eq!(frames, call!(PinnedPages::len, &pins));
                call!(PinnedPages::pages, &pins);
                call!(PinnedPages::note_stored, &pins);
                let child = space.fork().expect("memory");
                match (nth + len) % 3 {
                    0 => kept.push(pins),
                    1 => drop(pins),
                    _ => drop(child),
                }
            }
        }
    }
    assert!(call!(MemlockLimit::locked_pages, &limit) <= call!(MemlockLimit::max_pages, &limit));
    space.unmap(base, 16 * 4096).expect("it is mapped");
    // A buffer that says something else each time, and one that panics.
    for panics in [false, true] {
        let odd = OddBuffer { slots: [const { None }; 4], asked: 0, panics };
        called!(AddressSpace::pin_pages => drop(space.pin_pages(object, Access::Write, &none, odd)));
        let odd = OddBuffer { slots: [const { None }; 4], asked: 0, panics };
        called!(AddressSpace::pin_range => drop(space.pin_range(object, Access::Write, &none, odd)));
    }
    drop(kept);
    assert_eq!(limit.locked_pages(), 0);
    // The buffer goes before the pins, as far as the types let it.
    let mut buffer: [Slot<'_>; 4] = [const { None }; 4];
    let pins = space.pin_pages(object, Access::Write, &limit, &mut buffer).expect("memory");
    assert_eq!(pins.len(), 4);
    drop(pins);
    assert!(buffer.iter().all(Option::is_none));
    assert_eq!(vm.memory().check().map(|counts| counts.pinned), Ok(0));
}

/// Bytes that others read and write: odd addresses, lengths up to some pages.
pub fn copies(vm: &Vm<'_, Lab>, space: &AddressSpace<'_, Lab>) {
    let base = space.map(&MapRequest::anonymous(16 * 4096)).expect("room");
    let shared = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(16 * 4096) };
    let object = space.map(&shared).expect("room");
    for (nth, addr) in odd::virt_addrs().chain([base, object]).enumerate() {
        for len in [0, 1, 4095, 4097, 70_000] {
            let mut bytes = vec![nth as u8; len];
            let done = [
                call!(AddressSpace::copy_to, space, addr, &bytes),
                call!(AddressSpace::copy_to_forced, space, addr, &bytes),
                call!(AddressSpace::copy_from, space, addr, &mut bytes),
            ];
            assert!(done.iter().all(|done| matches!(done, Some(Ok(_) | Err(_)))), "{done:?}");
            assert!(done.iter().flatten().flatten().all(|&done| done <= len));
        }
        let rights = [VmaFlags::READ, VmaFlags::empty(), VmaFlags::READ | VmaFlags::WRITE][nth % 3];
        space.protect(base, 8 * 4096, rights).expect("it is mapped");
        space.protect(object, 8 * 4096, rights).expect("it is mapped");
    }
    assert_eq!(vm.memory().check().map(|counts| counts.pinned), Ok(0));
}

/// The same pages again, without a lock and with one for each.
fn fast(vm: &Vm<'_, Lab>, space: &AddressSpace<'_, Lab>, addr: VirtAddr, access: Access, len: usize) {
    let limit = MemlockLimit::new(20);
    let slots = || (0..len).map(|_| None).collect::<Vec<Slot<'_>>>();
    let reading = vm.read();
    let fast = call!(AddressSpace::try_pin_fast, space, addr, access, &limit, slots(), &reading);
    drop(reading);
    let slow = call!(AddressSpace::pin_pages_slow, space, addr, access, &limit, slots());
    drop((fast, slow));
    if let Some(Ok(pins)) = call!(AddressSpace::pin_range, space, addr, access, &limit, slots()) {
        assert_eq!(pins.len(), len);
        called!(PinnedPages::unpin => pins.unpin());
    }
    assert_eq!(limit.locked_pages(), 0);
}

/// A buffer for pins that has more slots at some calls than at others.
struct OddBuffer<'v> {
    slots: [Slot<'v>; 4],
    asked: usize,
    panics: bool,
}

impl<'v> AsRef<[Slot<'v>]> for OddBuffer<'v> {
    fn as_ref(&self) -> &[Slot<'v>] {
        &self.slots[..1]
    }
}

impl<'v> AsMut<[Slot<'v>]> for OddBuffer<'v> {
    fn as_mut(&mut self) -> &mut [Slot<'v>] {
        self.asked += 1;
        assert!(!(self.panics && self.asked > 1), "a buffer that panics");
        &mut self.slots[..if self.asked % 2 == 1 { 4 } else { 2 }]
    }
}
