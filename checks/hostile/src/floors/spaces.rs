//! Spaces by number: odd numbers, handles that are forgotten, that end a space which is loaded, and that are
//! the last one on another CPU.

use crate::world::{Lab, must_work, on_lost_cpu, use_pages, with_vm};

use crate::{call, called};
use interleaf::frame::{Frame, Kind, Priority};
use interleaf::space::{
    AddressSpace, Fault, Layout, MapRequest, Path, RmapEntry, RmapError, RmapFound, SpaceHandle, SpaceId,
    Spaces, Vm,
};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, VirtAddr};
use interleaf_lab::machine::soft::boot_map;
use std::mem::forget;
use std::ops::ControlFlow;

fn new_space<'v>(vm: &'v Vm<'v, Lab>) -> AddressSpace<'v, Lab> {
    AddressSpace::new(vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative)
        .expect("memory for a space")
}

/// Calls every function of handles and their registry.
pub fn run() {
    with_vm(handles);
    on_lost_cpu(loaded);
}

fn handles(machine: &Lab, vm: &Vm<'_, Lab>) {
    let spaces = call!(Spaces::new, vm).expect("an answer").expect("memory");
    let insert =
        || called!(Spaces::insert => spaces.insert(new_space(vm))).expect("an answer").expect("memory");
    for number in [0, 1, 7, u64::MAX, u64::MAX - 1] {
        assert!(called!(Spaces::hold => spaces.hold(SpaceId(number)).is_none()).unwrap_or(true));
    }
    let space = insert();
    let id = call!(AddressSpace::id, &space).expect("an answer");
    let mut handles: Vec<_> = (0..100).map(|_| space.clone()).collect();
    handles.extend((0..100).map(|_| called!(Spaces::hold => spaces.hold(id)).flatten().expect("it lives")));
    assert_eq!(call!(SpaceHandle::handles_racy, &space), Some(201));
    // Dropped on another CPU, the last one among them.
    drop(space);
    std::thread::scope(|scope| {
        for half in [handles.split_off(100), handles] {
            scope.spawn(move || {
                let _cpu = machine.enter(CpuId(1));
                drop(half);
            });
        }
    });
    assert!(spaces.hold(id).is_none());
    // Ends under a reader: the reader's entry stays in memory.
    let space = insert();
    let reading = vm.read();
    let id = space.id();
    assert!(spaces.hold(id).is_some());
    drop(reading);
    // Another registry of the same system.
    let other = Spaces::new(vm).expect("memory");
    assert!(other.hold(id).is_none());
    entries(vm, &spaces, &insert());
    // A handle that is forgotten keeps its space for good.
    let kept = insert();
    let id = kept.id();
    forget(kept);
    use_pages_of(machine, &spaces, id);
    must_work(machine, vm);
}

/// The reverse map: frames of all kinds, finders that find nothing, the wrong space, or fork meanwhile, and
/// visitors that stop.
fn entries<'v>(vm: &'v Vm<'v, Lab>, spaces: &Spaces<'v, Lab>, space: &AddressSpace<'v, Lab>) {
    let memory = vm.memory();
    let base = space.map(&MapRequest::anonymous(2 << 12)).expect("memory");
    space.fault(Fault { addr: base, access: Access::Write }).expect("mapped");
    let (pfn, _) = space.inspect().resident_frame(base.vpn()).expect("present");
    assert!(
        memory.meta(pfn).and_then(|meta| called!(FrameMeta::anon_key => meta.anon_key()).flatten()).is_some()
    );
    let frame = memory.try_get(pfn).expect("user memory");
    let other = new_space(vm);
    let go_on = |_: &RmapEntry<'_, 'v, Lab>| ControlFlow::Continue(());
    let look = |entry: &RmapEntry<'_, 'v, Lab>| {
        called!(RmapEntry::space => entry.space().id());
        called!(RmapEntry::page => entry.page());
        called!(RmapEntry::leaf => entry.leaf());
        called!(RmapEntry::walk => entry.walk());
        ControlFlow::Break(())
    };
    let answers = [
        called!(Spaces::rmap_walk => spaces.rmap_walk(&frame, go_on)),
        called!(Spaces::rmap_walk => spaces.rmap_walk(&frame, look)),
        called!(Vm::rmap_walk => vm.rmap_walk(&frame, |_| None::<&AddressSpace<'v, Lab>>, go_on)),
        called!(Vm::rmap_walk => vm.rmap_walk(&frame, |_| Some(&other), go_on)),
        called!(Vm::rmap_walk => vm.rmap_walk(&frame, |id| {
            drop(space.fork());
            (space.id() == id).then_some(space)
        }, go_on)),
    ];
    for addr in [base, VirtAddr(0), VirtAddr(u64::MAX)] {
        let taken = called!(Spaces::unmap_hugetlb_sharers => spaces.unmap_hugetlb_sharers(space, addr));
        assert_eq!(taken, Some(Ok(false)), "nothing is set aside for {addr:?}");
    }
    let missing = Some(Err(RmapError::SpaceMissing));
    assert_eq!(answers[..4], [Some(Ok(RmapFound::All(1))), Some(Ok(RmapFound::Stopped)), missing, missing]);
    // Not in use, and given back in between.
    let loose = Frame::from(memory.alloc_zeroed(Priority::Normal).expect("memory")).into_user();
    assert_eq!(vm.rmap_walk(&loose, |_| Some(space), go_on), Ok(RmapFound::All(0)));
    space.unmap(base, 2 << 12).expect("mapped");
    assert_eq!(vm.rmap_walk(&frame, |_| Some(space), go_on), Ok(RmapFound::All(0)));
    assert!(call!(Vm::has_objects, vm).is_some());
    assert!(call!(Vm::nr_anon_nodes, vm).is_some_and(|nodes| nodes >= 2));
}

/// The last handle of a space that this CPU has loaded: refused, and no number leads to it any more.
fn loaded(machine: &Lab) {
    let vm = Vm::new(machine, boot_map(machine)).expect("memory");
    let spaces = Spaces::new(&vm).expect("memory");
    let loaded = spaces.insert(new_space(&vm)).expect("memory");
    let (id, root) = (loaded.id(), loaded.root());
    forget(loaded.activate(None));
    assert!(crate::call::without_message(|| drop(loaded)).is_none());
    assert!(spaces.hold(id).is_none());
    assert_eq!(vm.memory().meta(root).map(|meta| meta.state().kind()), Some(Kind::Table));
}

fn use_pages_of(machine: &Lab, spaces: &Spaces<'_, Lab>, id: SpaceId) {
    let space = spaces.hold(id).expect("a handle was forgotten");
    let running = space.activate(None);
    use_pages(machine, &space);
    drop(running);
}
