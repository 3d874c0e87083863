//! What is done for a call: the library's own, the nearest that it has, or nothing.

use super::files::FileTable;
use super::step::{Act, STAND_IN, Way, round_up, stand_in_flags};
use super::thp_disable::granted_thp_disable;
use super::unbuilt::GUARD_INSTALL;
use crate::trace::{Call, Sys};
use interleaf::space::{MapRequest, Place, Sharing, SyncMode};
use interleaf::units::VirtAddr;
use interleaf::vma::VmaFlags;
use interleaf_linux_abi::{MapFlags, advice, map_request};

/// The longest mapping that is replayed: all of user space with tables of four levels.
const MAPPED_MOST_BYTES: u64 = 1 << 47;
/// The longest mremap that is replayed: its pages are moved one by one.
const MOVED_MOST_BYTES: u64 = 64 << 30;

/// Refuses a call that was answered though it asks for more than there is.
pub fn check_length(call: &Call, result: i64) -> Result<(), String> {
    let (len, most) = match call.sys {
        Sys::Mmap | Sys::MapShadowStack => (call.args[1], MAPPED_MOST_BYTES),
        Sys::Mremap => (call.args[1].max(call.args[2]), MOVED_MOST_BYTES),
        _ => return Ok(()),
    };
    if result >= 0 && len > most {
        return Err(format!("{} of {len:#x} bytes, granted, cannot be replayed", call.sys));
    }
    Ok(())
}

/// What is done for a call that returned `result`.
pub fn act(call: &Call, result: i64) -> (Act, Way) {
    let [addr, len, third, fourth, fifth, _] = call.args;
    let failed = result < 0;
    match call.sys {
        // A fatal signal, or one that has the call made again: it has not begun.
        _ if is_interrupted(result) => (Act::Nothing, Way::Left),
        Sys::Mmap if is_anonymous(fourth) => map_anonymous(call, result),
        // What Linux found wrong with the file cannot be found here.
        Sys::Mmap if failed => (Act::Nothing, Way::Left),
        // Files are found before (`map_file`).
        Sys::Mmap => (Act::StandIn(stand_in(call, result)), Way::StandIn),
        Sys::MapShadowStack if !failed => {
            let place = Place::Fixed(VirtAddr(result as u64));
            (Act::StandIn(MapRequest { place, ..MapRequest::anonymous(len) }), Way::Imposed)
        }
        Sys::Munmap => (Act::Munmap { addr, len }, Way::Carried),
        Sys::Mprotect => (Act::Mprotect { addr, len, prot: third }, Way::Carried),
        Sys::PkeyMprotect if !failed => (Act::Mprotect { addr, len, prot: third }, Way::Imposed),
        // Whether it is refused depends on the blocks that were free, and on pages that no event tells.
        Sys::Madvise if third as i32 == advice::COLLAPSE && failed => (Act::Nothing, Way::Left),
        Sys::Madvise if third as i32 == advice::COLLAPSE => {
            (Act::Madvise { addr, len, advice: advice::COLLAPSE }, Way::Imposed)
        }
        // Guards are followed; what is left of the call is that the pages go.
        Sys::Madvise if third as i32 == GUARD_INSTALL && !failed => {
            (Act::Madvise { addr, len, advice: advice::DONTNEED }, Way::Imposed)
        }
        Sys::Madvise if advice::advice(third as i32).is_some() => {
            (Act::Madvise { addr, len, advice: third as i32 }, Way::Carried)
        }
        Sys::Msync if !failed => (msync(addr, len, third), Way::Carried),
        Sys::Brk => (Act::Brk { addr }, Way::Carried),
        Sys::Mremap if !failed => {
            (Act::Mremap { addr, old_len: len, new_len: third, flags: fourth, to: fifth }, Way::Imposed)
        }
        Sys::Prctl if !failed => match granted_thp_disable(call) {
            Some(thp_disable) => (Act::SetThpDisable(thp_disable), Way::Carried),
            None => (Act::Nothing, Way::Imposed),
        },
        sys if !failed && is_unbuilt(sys) => (Act::Nothing, Way::Imposed),
        _ => (Act::Nothing, Way::Left),
    }
}

/// Whether a call was ended by a signal before it did anything: EINTR, or a number that the program does not
/// see since the call is made again (ERESTARTSYS and its kin).
fn is_interrupted(result: i64) -> bool {
    result == -4 || (-516..=-512).contains(&result)
}

/// Calls that change how memory behaves, which is assumed and not done.
fn is_unbuilt(sys: Sys) -> bool {
    use Sys::{Madvise, Mbind, Mlock, Mlock2, Mlockall, Mseal, Munlock, Munlockall};
    matches!(sys, Madvise | Mbind | Mlock | Mlock2 | Mlockall | Mseal | Munlock | Munlockall)
}

fn is_anonymous(flags: u64) -> bool {
    MapFlags::from_bits_retain(flags as u32).contains(MapFlags::ANONYMOUS)
}

/// Flags with which the library's mmap does not do all that Linux does.
const UNBUILT: MapFlags = MapFlags::HUGETLB.union(MapFlags::GROWSDOWN).union(MapFlags::LOCKED);
/// `MAP_DROPPABLE` of Linux: private memory that reclaim may discard.
const DROPPABLE: u32 = 8;

/// mmap without a file. What is not built is imposed by the nearest mapping there is.
fn map_anonymous(call: &Call, result: i64) -> (Act, Way) {
    let [addr, len, prot, flags, _, offset] = call.args;
    let (prot, word) = (prot as u32, flags as u32);
    let flags = MapFlags::from_bits_retain(word);
    let is_droppable = word & MapFlags::TYPE.bits() == DROPPABLE;
    if !flags.intersects(UNBUILT) && !is_droppable {
        return (Act::Mmap { addr, len, prot, flags: word, offset }, Way::Carried);
    }
    if result < 0 {
        return (Act::Nothing, Way::Left);
    }
    if !is_droppable && flags & UNBUILT == MapFlags::LOCKED {
        let flags = (flags - MapFlags::LOCKED) | MapFlags::POPULATE;
        return (Act::Mmap { addr, len, prot, flags: flags.bits(), offset }, Way::Imposed);
    }
    let private = if is_droppable { (word & !DROPPABLE) | MapFlags::PRIVATE.bits() } else { word };
    let (mut request, _) = map_request(addr, len, prot, private);
    request.flags.set(VmaFlags::GROWS_DOWN, flags.contains(MapFlags::GROWSDOWN));
    if is_droppable {
        request.flags |= VmaFlags::WIPE_ON_FORK | VmaFlags::DONT_DUMP | VmaFlags::NORESERVE;
    }
    if flags.contains(MapFlags::HUGETLB) {
        request.flags |= STAND_IN | VmaFlags::NORESERVE;
    }
    request.len_bytes = round_up(len, if flags.contains(MapFlags::HUGETLB) { 2 << 20 } else { 4096 });
    let place = Place::Fixed(VirtAddr(result as u64));
    (Act::StandIn(MapRequest { place, ..request }), Way::Imposed)
}

/// What is done for a granted mmap of a file. What Linux locked is made present.
pub fn map_file(call: &Call, files: &FileTable) -> Option<(Act, Way)> {
    let file = files.of_call(call)?;
    let [addr, len_bytes, prot, flags, _, offset] = call.args;
    let (request, _) = map_request(addr, len_bytes, prot as u32, flags as u32);
    let flags = MapFlags::from_bits_retain(flags as u32);
    let private = flags & MapFlags::TYPE == MapFlags::PRIVATE;
    let sharing = if private { Sharing::Private } else { Sharing::Shared };
    let is_locked = flags.contains(MapFlags::LOCKED);
    let request = MapRequest { sharing, populate: request.populate || is_locked, ..request };
    let act = Act::MapFile { file, first: offset / 4096, request };
    Some((act, if is_locked { Way::Imposed } else { Way::Carried }))
}

/// A granted msync.
fn msync(addr: u64, len: u64, flags: u64) -> Act {
    const INVALIDATE: u64 = 2;
    const SYNC: u64 = 4;
    let mode = match flags {
        _ if flags & SYNC != 0 => SyncMode::Sync,
        _ if flags & INVALIDATE != 0 => SyncMode::Invalidate,
        _ => SyncMode::Async,
    };
    Act::Msync { addr, len, mode }
}

fn stand_in(call: &Call, result: i64) -> MapRequest<'static> {
    let [addr, len_bytes, prot, flags, _, offset] = call.args;
    let (request, _) = map_request(addr, len_bytes, prot as u32, flags as u32);
    let private = MapFlags::from_bits_retain(flags as u32) & MapFlags::TYPE == MapFlags::PRIVATE;
    let sharing = if private { Sharing::Private } else { Sharing::Shared };
    let access = request.flags & VmaFlags::ACCESS;
    let flags = access | stand_in_flags((result as u64).wrapping_sub(offset));
    MapRequest { flags, sharing, ..request }
}

/// Shared memory in the place of a System V segment, at `at` or, where that is 0, anywhere.
pub fn segment_request(at: u64, len_bytes: u64, flags: u64) -> MapRequest<'static> {
    const READ_ONLY: u64 = 0o10000;
    const EXECUTE: u64 = 0o100_000;
    let mut access = VmaFlags::READ;
    access.set(VmaFlags::WRITE, flags & READ_ONLY == 0);
    access.set(VmaFlags::EXECUTE, flags & EXECUTE != 0);
    MapRequest {
        place: if at == 0 { Place::Hint(VirtAddr(0)) } else { Place::Fixed(VirtAddr(at & !0xfff)) },
        flags: access | STAND_IN | VmaFlags::NORESERVE,
        sharing: Sharing::Shared,
        ..MapRequest::anonymous(round_up(len_bytes, 4096))
    }
}
