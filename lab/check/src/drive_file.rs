//! Calls of a space where there is a file: an object of the library's, in memory or of a [`Disk`].

use super::calls::{Call, CallResult, Errno, FileCall, MapFlags, PAGE, REMOVE};
use super::disk::Disk;
use super::drive::Driver;
use interleaf::machine::Format;
use interleaf::space::{AddressSpace, MapRequest, ObjectHandle, Place, Sharing, SpaceId};
use interleaf::units::VirtAddr;
use interleaf::vma::VmaFlags;
use interleaf_lab::machine::soft::{Flavour, SoftMachine};
use interleaf_linux_abi as linux;

/// The one file, and the spaces that may map it.
pub struct FileWorld<'a, 'v, C: Flavour, F: Format> {
    /// Its object.
    pub file: &'a ObjectHandle<'v, SoftMachine<C, F>>,
    /// Where its pages are written, if it is not in memory alone.
    pub disk: Option<&'a Disk>,
    /// The spaces.
    pub spaces: &'a [&'a AddressSpace<'v, SoftMachine<C, F>>],
}

/// What the words of an mmap of the file at a fixed place ask for, and the page that it begins at.
fn map_request(words: [u64; 6]) -> Result<(MapRequest<'static>, u64), Errno> {
    let [hint, len, prot, flags, _, offset] = words;
    let map = MapFlags::from_bits_retain(flags as u32);
    let sharing = match map & (MapFlags::SHARED | MapFlags::PRIVATE) {
        MapFlags::SHARED => Sharing::Shared,
        MapFlags::PRIVATE => Sharing::Private,
        _ => return Err(Errno::EINVAL),
    };
    if !offset.is_multiple_of(PAGE) || !map.contains(MapFlags::FIXED) {
        return Err(Errno::EINVAL);
    }
    let mut vma_flags = VmaFlags::from_bits_truncate(prot as u32) & VmaFlags::ACCESS;
    vma_flags.set(VmaFlags::NORESERVE, map.contains(MapFlags::NORESERVE));
    vma_flags.set(VmaFlags::NO_HUGE_PAGE, map.contains(MapFlags::STACK));
    let request = MapRequest {
        place: Place::Fixed(VirtAddr(hint)),
        flags: vma_flags,
        sharing,
        populate: map & (MapFlags::POPULATE | MapFlags::NONBLOCK) == MapFlags::POPULATE,
        ..MapRequest::anonymous(len)
    };
    Ok((request, offset / PAGE))
}

/// Linux takes offsets and lengths as signed numbers.
fn positive(word: u64) -> Result<u64, Errno> {
    if word > i64::MAX as u64 { Err(Errno::EINVAL) } else { Ok(word) }
}

impl<'a, 'v, C: Flavour, F: Format> FileWorld<'a, 'v, C, F> {
    fn hold(&self, id: SpaceId) -> Option<&'a AddressSpace<'v, SoftMachine<C, F>>> {
        self.spaces.iter().find(|space| space.id() == id).copied()
    }

    fn call(&self, call: FileCall) -> Result<CallResult, Errno> {
        let file = self.file;
        match call {
            FileCall::Truncate { len } => {
                let len = positive(len)?;
                // The embedder's own file is shorter before, and longer after the object.
                self.disk.iter().for_each(|disk| disk.shorten(len));
                let reach = file.set_len_bytes(len, |id| self.hold(id)).map_err(Errno::from)?;
                assert_eq!(reach.missing, 0, "all spaces are known");
                Ok(CallResult::Value(0))
            }
            FileCall::PunchHole { offset, len } => {
                let (offset, len) = (positive(offset)?, positive(len)?);
                positive(offset + len).map_err(|_| Errno::EFBIG)?;
                self.disk.iter().for_each(|disk| disk.zero(offset..offset + len));
                let reach = file.punch_hole(offset, len, |id| self.hold(id)).map_err(Errno::from)?;
                assert_eq!(reach.missing, 0, "all spaces are known");
                Ok(CallResult::Value(0))
            }
            FileCall::Read { offset, len } => {
                let mut bytes = vec![0xee; len as usize];
                let done = file.read_at(positive(offset)?, &mut bytes).map_err(Errno::from)?;
                Ok(CallResult::data(&bytes[..done]))
            }
            FileCall::Write { offset, len, value } => {
                let done = file.write_at(positive(offset)?, &vec![value; len as usize]);
                Ok(CallResult::Value(done.map_err(Errno::from)? as u64))
            }
        }
    }

    /// What is written back is on the disk: that of the whole file, afterwards.
    ///
    /// # Panics
    /// Where the disk has other bytes than the object.
    pub fn check_disk(&self) {
        let Some(disk) = self.disk else { return };
        let mut errors = self.file.error_cursor();
        let written = self.file.sync(&mut errors, |id| self.hold(id)).expect("the disk takes all");
        assert_eq!((written.failed, written.missing), (0, 0), "{written:?}");
        for page in 0..self.file.len_bytes().div_ceil(PAGE) {
            let mut bytes = vec![0; PAGE as usize];
            let len = self.file.read_at(page * PAGE, &mut bytes).expect("the disk gives all");
            assert!(disk.page(page)[..len] == bytes[..len], "page {page} of the disk has other bytes");
        }
    }
}

impl<'v, C: Flavour, F: Format> Driver<'_, 'v, C, F> {
    /// As [`call`](Self::call), where there is a file.
    pub fn call_with_file(&self, call: &Call, world: &FileWorld<'_, 'v, C, F>) -> CallResult {
        let value = |done: Result<u64, Errno>| done.map_or_else(CallResult::Error, CallResult::Value);
        match *call {
            Call::Words { words, .. } if call.maps_file() => {
                value(map_request(words).and_then(|(request, page)| {
                    let mapped = self.space.map(&request.backed_by(world.file.at_page(page)));
                    Ok(mapped.map_err(Errno::from)?.0)
                }))
            }
            Call::Madvise { addr, len, advice: REMOVE } => {
                let removed = linux::remove(self.space, addr, len, |id| world.hold(id));
                value(removed.map(|reach| reach.missing))
            }
            Call::Msync { addr, len, flags } => {
                value(linux::msync(self.space, addr, len, flags, |id| world.hold(id)).map(|()| 0))
            }
            Call::File(call) => world.call(call).unwrap_or_else(CallResult::Error),
            _ => self.call(call),
        }
    }
}
