//! Spaces by number: odd numbers, handles that are forgotten, that end a space which is loaded, and that are
//! the last one on another CPU.

use crate::world::{Lab, must_work, on_lost_cpu, use_pages, with_vm};

use crate::{call, called};
use interleaf::frame::Kind;
use interleaf::space::{AddressSpace, Layout, Path, SpaceHandle, SpaceId, Spaces, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::CpuId;
use interleaf_lab::check::library::boot_map;
use std::mem::forget;

fn new_space<'v>(vm: &'v Vm<'v, Lab>) -> AddressSpace<'v, Lab> {
    AddressSpace::new(vm, Layout::linux::<X86_64>(), Path::Speculative).expect("memory for a space")
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
    // A handle that is forgotten keeps its space for good.
    let kept = insert();
    let id = kept.id();
    forget(kept);
    use_pages_of(machine, &spaces, id);
    must_work(machine, vm);
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
