//! Seals of a file in memory: the same calls on Linux and on the library, in all orders of the seals.

use interleaf::object::Seals;
use interleaf::space::{AddressSpace, Layout, MapRequest, ObjectHandle, Path, Sharing, SpaceId, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{CpuId, VirtAddr};
use interleaf::vma::VmaFlags;
use interleaf_check::calls::Errno;
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine, boot_map};
use interleaf_lab::os::seals::SealedFile;

type Machine = SoftMachine<Host, X86_64>;
const PAGE: u64 = 4096;
const R: i32 = 1;
const RW: i32 = 3;
const SHARED: i32 = 1;

/// What Linux says, call by call: 0, or the error number.
fn of_linux(first: u32, second: u32, has_mapping: Option<i32>) -> Vec<i64> {
    let file = SealedFile::new(4).expect("a file");
    let mapped = has_mapping.map(|prot| file.map(prot, SHARED).expect("nothing is sealed"));
    let mut said = vec![i64::from(file.add(first)), i64::from(file.add(second))];
    said.extend([3, 4, 6].map(|pages| i64::from(file.set_len(pages))));
    said.push(file.write(0, b"ab"));
    said.push(file.write(8 * PAGE - 1, b"ab"));
    said.push(file.punch_hole(1).into());
    for prot in [R, RW] {
        let map = file.map(prot, SHARED);
        said.push(map.as_ref().map_or_else(|error| i64::from(*error), |_| 0));
        said.extend(map.map(|page| i64::from(page.protect(RW))).ok());
    }
    said.push(file.map(RW, 2).map_or_else(i64::from, |_| 0));
    said.extend(mapped.iter().map(|page| i64::from(page.remove())));
    said
}

fn number(done: Result<(), impl Into<Errno>>) -> i64 {
    done.map_or_else(|error| i64::from(error.into().0), |()| 0)
}

fn of_library(vm: &Vm<'_, Machine>, first: u32, second: u32, has_mapping: Option<i32>) -> Vec<i64> {
    let space = AddressSpace::new(vm, Layout::linux::<X86_64>(), Path::Speculative).expect("a root table");
    let file = ObjectHandle::new(vm, 4 * PAGE).expect("an object");
    let hold = |_: SpaceId| Some(&space);
    let map = |prot: i32, sharing| {
        let flags = VmaFlags::from_bits_truncate(prot as u32);
        let request = MapRequest { sharing, flags, ..MapRequest::anonymous(PAGE) };
        space.map(&request.backed_by(file.at_page(0)))
    };
    let mapped = has_mapping.map(|prot| map(prot, Sharing::Shared).expect("nothing is sealed"));
    let mut said = Vec::new();
    for seals in [first, second] {
        said.push(number(file.add_seals(Seals::from_bits_retain(seals), hold)));
    }
    said.extend([3, 4, 6].map(|pages| number(file.set_len_bytes(pages * PAGE, hold).map(drop))));
    let written = |done: Result<usize, interleaf::space::ObjectError>| {
        done.map_or_else(|error| -i64::from(Errno::from(error).0), |bytes| bytes as i64)
    };
    said.push(written(file.write_at(0, b"ab")));
    said.push(written(file.write_at(8 * PAGE - 1, b"ab")));
    said.push(number(file.punch_hole(PAGE, PAGE, hold).map(drop)));
    for prot in [R, RW] {
        let at: Result<VirtAddr, _> = map(prot, Sharing::Shared);
        said.push(number(at.map(drop)));
        if let Ok(at) = at {
            said.push(number(space.protect(at, PAGE, VmaFlags::READ | VmaFlags::WRITE)));
            space.unmap(at, PAGE).expect("it is mapped");
        }
    }
    said.push(number(map(RW, Sharing::Private).map(drop)));
    said.extend(mapped.map(|at| number(space.remove(at, PAGE, hold).map(drop))));
    said
}

/// Linux's memory files wait for pins of pages; here are none.
#[test]
fn sealed_files_refuse_what_linux_refuses() {
    let machine = Machine::new(&MachineConfig::small(1, 2048)).expect("a machine");
    let _cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory");
    for first in 0..32 {
        for second in [0, 1, 2, 8, 16, 64] {
            for has_mapping in [None, Some(R), Some(RW)] {
                let linux = of_linux(first, second, has_mapping);
                let library = of_library(&vm, first, second, has_mapping);
                assert_eq!(linux, library, "seals {first}, then {second}, a mapping: {has_mapping:?}");
            }
        }
    }
}
