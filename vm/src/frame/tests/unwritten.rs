//! Records that are not written yet: what they hold is what the memory held.

use crate::frame::boot::deferred::SECTION_FRAMES;
use crate::frame::{AllocRequest, BootMap, FrameState, Init, Kind, Memory, RecordInit, Region, RegionKind};
use crate::machine::Machine;
use crate::machine::testing::TestMachine;
use crate::units::{NodeId, Order, PAGE_SIZE, Pfn};
use crate::work::WorkerPool;
use std::vec::Vec;

/// A machine of this many frames, whose memory holds what an earlier system left there: each word of a record
/// may be the state of user memory with one reference.
fn used_machine(frames: u64) -> TestMachine {
    let machine = TestMachine::new(frames);
    let words = (machine.frames().len() as usize) * PAGE_SIZE / 8;
    let at = machine.window(machine.frames().start.addr()).cast::<u64>();
    // SAFETY: the words are the machine's memory, which nothing uses yet.
    unsafe { core::slice::from_raw_parts_mut(at.as_ptr(), words) }.fill(FrameState::USER_FRAME.0);
    machine
}

fn start<'m>(machine: &'m TestMachine, from: u64) -> Memory<'m, TestMachine> {
    let frames = machine.frames();
    let region = Region {
        start: frames.start.add(from).addr(),
        len_bytes: (frames.len() - from) * PAGE_SIZE as u64,
        kind: RegionKind::Usable(Init::Dirty),
        node: NodeId(0),
    };
    let map = BootMap::new(&[region]).unwrap();
    Memory::start(map.claim(machine).unwrap(), RecordInit::Deferred).unwrap()
}

/// The frames of blocks that are not claimed yet.
fn unclaimed(memory: &Memory<'_, TestMachine>) -> Vec<Pfn> {
    let size = Order::MAX.frames();
    let blocks = (memory.span().start.0 / size..memory.span().end.0.div_ceil(size)).map(|n| Pfn(n * size));
    let unclaimed = blocks.filter(|&block| memory.deferred.is_unclaimed(block));
    let frames = unclaimed.flat_map(|block| (0..size).map(move |n| block.add(n)));
    frames.filter(|&pfn| memory.span().contains(pfn)).collect()
}

#[test]
fn a_frame_whose_record_is_not_written_gives_no_reference() {
    let machine = used_machine(12_000);
    let memory = start(&machine, 100);
    let frames = unclaimed(&memory);
    assert!(frames.len() > 4096);
    for &pfn in &frames {
        assert!(memory.try_get(pfn).is_none(), "{pfn:?} was never allocated");
        assert!(memory.meta(pfn).is_none(), "the record of {pfn:?} was never written");
    }
    memory.deferred().initialise(&WorkerPool::without_helpers(&machine), 0, &|| false, &|_| ()).unwrap();
    for pfn in frames {
        assert!(memory.try_get(pfn).is_none(), "{pfn:?} is free");
        let kind = memory.meta(pfn).map(|meta| meta.state().kind());
        assert!(matches!(kind, Some(Kind::Free | Kind::Reserved)), "{pfn:?} is {kind:?}");
    }
    memory.check().unwrap();
}

#[test]
fn every_record_that_is_written_is_found() {
    for from in [0, 1, 1023, 1024, 3000, SECTION_FRAMES - 1] {
        let machine = used_machine(SECTION_FRAMES + 9000);
        let memory = start(&machine, from);
        let unclaimed = unclaimed(&memory);
        let found =
            (memory.span().start.0..memory.span().end.0).map(Pfn).filter(|&pfn| memory.meta(pfn).is_some());
        let found: Vec<_> = found.collect();
        assert_eq!(found.len() + unclaimed.len(), memory.span().len() as usize, "from {from}");
        assert!(found.iter().all(|pfn| unclaimed.binary_search(pfn).is_err()));
        let frame = memory.alloc_frame(AllocRequest::DIRTY).unwrap();
        assert_eq!(memory.meta(frame.pfn()).map(|meta| meta.state()), Some(FrameState::TAKEN_FRAME));
    }
}

#[test]
fn records_outside_of_the_memory_are_not_found() {
    let machine = used_machine(9000);
    let memory = start(&machine, 100);
    let (first, end) = (memory.span().start, memory.span().end);
    for pfn in [Pfn(0), Pfn(first.0 - 1), end, end.add(SECTION_FRAMES), Pfn(u64::MAX), Pfn(1 << 63)] {
        assert!(memory.meta(pfn).is_none() && memory.try_get(pfn).is_none(), "{pfn:?}");
    }
}
