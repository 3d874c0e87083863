//! Reading and writing an object through its pages, coherent with its mappings. (Linux: `read`, `write` of a
//! file, by its page cache.)

use super::write_back::MadeDirty;
use crate::frame::{FrameRef, PageFill, Priority, ZeroedFrame};
use crate::machine::Machine;
use crate::object::{FillError, PageAnswer, PagerKey, Seals};
use crate::space::{Error, ObjectHandle, Vm};
use crate::sync::{Progress, Retry};
use crate::units::PAGE_SIZE;
use core::fmt;
use core::num::NonZeroU64;

/// Why a call on an object was refused, in Linux's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ObjectError {
    /// No memory for a page: `ENOMEM`.
    NoMemory,
    /// The pager could not read, write or make room for a page: `EIO`.
    Io,
    /// An object does not reach as far: `EFBIG`.
    TooLong,
    /// A [seal](crate::space::ObjectHandle::add_seals) forbids it: `EPERM`.
    Sealed,
    /// The pager has not answered on a platform whose threads do not block: `EAGAIN`.
    Stalled,
}

/// A page that is to be there.
enum Found<'v, M: Machine> {
    Frame(FrameRef<'v, M>),
    /// None: zeros.
    Hole,
}

const PAGE: u64 = PAGE_SIZE as u64;

impl<'v, M: Machine> ObjectHandle<'v, M> {
    /// Copies bytes of the object, from `offset_bytes` on. Returns how many: fewer than asked for at the end
    /// of the object, and where a page cannot be read.
    ///
    /// Called with no lock held and outside any read section; may sleep.
    ///
    /// # Errors
    /// Where the first page cannot be read.
    pub fn read_at(&self, offset_bytes: u64, to: &mut [u8]) -> Result<usize, ObjectError> {
        let len = self.len_bytes().saturating_sub(offset_bytes).min(to.len() as u64) as usize;
        let mut done = 0;
        while done < len {
            let at = offset_bytes + done as u64;
            let (page, inside) = (at / PAGE, (at % PAGE) as usize);
            let part = &mut to[done..len.min(done + PAGE_SIZE - inside)];
            match self.vm.object_page(self.id().number(), page, false) {
                Ok(Found::Frame(frame)) => frame.read(inside, part),
                Ok(Found::Hole) => part.fill(0),
                Err(ObjectError::TooLong) => break,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
            done += part.len();
        }
        Ok(done)
    }

    /// Copies bytes to the object, from `offset_bytes` on; it becomes as long as that takes, with zeros where
    /// nothing was. Returns how many: fewer than given where a page lacks. Pages of an object that is written
    /// back are dirty then.
    ///
    /// Called as [`read_at`](Self::read_at); where it makes the object longer, as
    /// [`set_len_bytes`](Self::set_len_bytes), one caller at a time.
    ///
    /// # Errors
    /// Where the first page lacks: no byte was written. [`ObjectError::TooLong`] where no object reaches as
    /// far; [`ObjectError::Sealed`].
    pub fn write_at(&self, offset_bytes: u64, from: &[u8]) -> Result<usize, ObjectError> {
        let mut done = 0;
        while done < from.len() {
            let at = offset_bytes.checked_add(done as u64);
            let room = at.map_or(0, |at| (MAX_BYTES.saturating_sub(at)).min(PAGE - at % PAGE));
            let part = &from[done..from.len().min(done + room as usize)];
            let written = match at.filter(|_| room > 0) {
                Some(at) => self.write_part(at, part),
                None => Err(ObjectError::TooLong),
            };
            match written {
                Ok(()) => done += part.len(),
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// Writes bytes of one page.
    fn write_part(&self, at: u64, part: &[u8]) -> Result<(), ObjectError> {
        let (vm, number, page) = (self.vm, self.id().number(), at / PAGE);
        let end = at + part.len() as u64;
        if vm.is_sealed(self.id(), Seals::NO_WRITE) {
            return Err(ObjectError::Sealed);
        }
        let before = vm.extend_object(number, end).ok_or(ObjectError::Sealed)?;
        if before < at {
            // A program may have stored beyond the end, in the last page.
            vm.zero_object_part(self.id(), before..before.next_multiple_of(PAGE).min(at));
        }
        let result = vm.object_page_to_store(number, page);
        match &result {
            Ok(frame) => {
                frame.write((at % PAGE) as usize, part);
                vm.note_stored(frame.pfn());
            }
            Err(_) => vm.shorten_object_again(number, end, before),
        }
        result.map(drop)
    }
}

const MAX_BYTES: u64 = crate::object::MAX_PAGES * PAGE;

impl<'v, M: Machine> Vm<'v, M> {
    /// Makes an object that a handle keeps as long as `len_bytes` at least. Returns its length before; `None`
    /// where a seal forbids that.
    fn extend_object(&self, object: NonZeroU64, len_bytes: u64) -> Option<u64> {
        let reading = self.rcu.read();
        self.objects.get(object, &reading).map_or(Some(0), |object| object.extend_len(len_bytes))
    }

    /// Gives an object its former length, if it has the one that this caller gave it.
    fn shorten_object_again(&self, object: NonZeroU64, len_bytes: u64, before: u64) {
        let reading = self.rcu.read();
        if before < len_bytes
            && let Some(object) = self.objects.get(object, &reading)
        {
            object.shorten_again(len_bytes, before);
        }
    }

    /// The page of an object to store to: there, and dirty where that is followed.
    fn object_page_to_store(&self, object: NonZeroU64, page: u64) -> Result<FrameRef<'_, M>, ObjectError> {
        let mut retry = Retry::new("object-store");
        loop {
            let Found::Frame(frame) = self.object_page(object, page, true)? else {
                return Err(ObjectError::NoMemory);
            };
            let own = match self.make_dirty(object, page) {
                MadeDirty::Dirty => return Ok(frame),
                MadeDirty::Refused => return Err(ObjectError::Io),
                // Truncated meanwhile.
                MadeDirty::Absent => Progress::Own,
                MadeDirty::NotYet(wait) => {
                    if wait.wait() {
                        Progress::Observed
                    } else {
                        Progress::None
                    }
                }
            };
            retry.again::<M::Cpu>(own).map_err(|_| ObjectError::Stalled)?;
        }
    }

    /// The page of an object. One that nothing has filled is a hole, or filled.
    fn object_page(&self, object: NonZeroU64, page: u64, fills: bool) -> Result<Found<'_, M>, ObjectError> {
        let mut retry = Retry::new("object-page");
        loop {
            let reading = self.rcu.read();
            let found = self.objects.get(object, &reading).ok_or(ObjectError::TooLong)?;
            if let Some(frame) = found.get_page(&self.memory, page, &reading) {
                return Ok(Found::Frame(frame));
            }
            let key = found.pager_key();
            drop(reading);
            if key.is_none() && !fills {
                return Ok(Found::Hole);
            }
            let frame = self.retry_after_trim(|| self.memory.alloc_zeroed(Priority::Normal));
            let frame = frame.ok_or(ObjectError::NoMemory)?;
            let own = self.fill_object_page((object, page), key, frame)?;
            retry.again::<M::Cpu>(own).map_err(|_| ObjectError::Stalled)?;
        }
    }

    fn fill_object_page(
        &self,
        (object, page): (NonZeroU64, u64),
        key: Option<PagerKey>,
        frame: ZeroedFrame<'v, M>,
    ) -> Result<Progress, ObjectError> {
        let (mut zeros, mut filled) = (None, None);
        match key {
            None => zeros = Some(frame),
            Some(key) => {
                let mut fill = PageFill::new(frame);
                let (answer, wait) = self.objects.ask_pager(key, page, &mut fill);
                match answer {
                    PageAnswer::Ready => filled = Some(fill),
                    PageAnswer::NotReady => {
                        return Ok(if wait.wait() { Progress::Observed } else { Progress::None });
                    }
                    PageAnswer::Beyond => return Err(ObjectError::TooLong),
                    PageAnswer::Error => return Err(ObjectError::Io),
                }
            }
        }
        let reading = self.rcu.read();
        let found = self.objects.get(object, &reading).ok_or(ObjectError::TooLong)?;
        let result = if filled.is_some() {
            found.fill_from_pager(&self.memory, page, &mut filled, &reading)
        } else {
            found.fill(&self.memory, page, &mut zeros, &reading)
        };
        match result {
            Ok(_) => Ok(Progress::Own),
            Err(FillError::NoMemory) => Err(ObjectError::NoMemory),
            Err(FillError::Beyond | FillError::Dead) => Err(ObjectError::TooLong),
        }
    }
}

impl ObjectError {
    /// The error of a call of a space that has met it.
    pub(in crate::space) const fn of_call(self) -> Error {
        match self {
            ObjectError::NoMemory => Error::NoMemory,
            ObjectError::Io => Error::Io,
            ObjectError::TooLong => Error::Invalid,
            ObjectError::Sealed => Error::NotPermitted,
            ObjectError::Stalled => Error::Again,
        }
    }
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ObjectError::NoMemory => "no memory for a page of the object",
            ObjectError::Io => "a page of the object could not be read or written",
            ObjectError::TooLong => "the object does not reach as far",
            ObjectError::Sealed => "the object is sealed against it",
            ObjectError::Stalled => "the pager does not answer",
        })
    }
}

impl core::error::Error for ObjectError {}
