//! Fibers: several stacks on one host thread, any of which may switch to any other.
//!
//! A switch takes some 20 ns, where handing over between host threads takes microseconds. That is what lets a
//! seeded machine choose another CPU at every access to shared memory.
//!
//! A [`Ring`] is a number of slots; slot 0 is the host thread itself, each of the others a coroutine. A
//! coroutine of `corosensei` can only return to the stack that resumed it, so the host thread drives them: a
//! fiber that switches suspends itself and names the slot that goes on, and the driver resumes that one.
//!
//! ```text
//!   slot 0 (host)      slot 1             slot 2
//!   switch_to(1) ────► runs
//!                 ◄─── switch_to(2)
//!   resumes 2 ──────────────────────────► runs
//! ```
//!
//! Exactly one slot runs. A fiber that is never resumed again is leaked, stack and all: what it borrows must
//! then never end, which [`Ring::scope`] ensures by not returning either.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell};
use std::io;
use std::process::abort;
use std::ptr::null;
use std::rc::Rc;

/// Bytes of a fiber's stack; the host brings them in as they are touched. A guard page lies below.
const STACK_BYTES: usize = 512 << 10;
/// Slot of the host thread.
const HOST: usize = 0;

/// What a fiber runs.
type Entry = Box<dyn FnOnce()>;
/// Suspends with the slot that goes on; returns the slot of the parent.
type Fiber = Coroutine<(), usize, usize>;

/// One fiber.
struct Slot {
    /// The number of its stack.
    stack: u64,
    /// Borrowed while the fiber runs.
    fiber: RefCell<Fiber>,
    /// The handle with which the fiber suspends itself; null until it has started. It lies on the fiber's own
    /// stack.
    yielder: Cell<*const Yielder<(), usize>>,
}

thread_local! {
    /// The number of the stack that runs.
    static STACK: Cell<u64> = const { Cell::new(0) };
    static NEXT_STACK: Cell<u64> = const { Cell::new(1) };
}

/// The number of the stack that runs, of those that this thread ever had: 0 for the thread's own, and another
/// for each fiber. Calls on one stack end in the reverse of the order in which they began; of calls on two
/// stacks either may end first.
pub fn current_stack() -> u64 {
    STACK.get()
}

/// A stack runs until this is dropped; then the one before it goes on.
struct OnStack(u64);

impl OnStack {
    fn enter(stack: u64) -> Self {
        Self(STACK.replace(stack))
    }
}

impl Drop for OnStack {
    fn drop(&mut self) {
        STACK.set(self.0);
    }
}

/// Stacks of one host thread, one of which runs.
pub struct Ring {
    /// Slots from 1 on.
    fibers: RefCell<Vec<Rc<Slot>>>,
    running: Cell<usize>,
}

impl Ring {
    /// A set of fibers with the running stack in slot 0.
    pub fn new() -> Rc<Self> {
        Rc::new(Self { fibers: RefCell::new(Vec::new()), running: Cell::new(HOST) })
    }

    /// The slot that runs.
    pub fn running(&self) -> usize {
        self.running.get()
    }

    /// Adds a fiber that will run `entry` when it is first switched to, and returns its slot. When it is
    /// done, the slot that runs now goes on.
    ///
    /// # Errors
    /// What the host says: no memory.
    pub fn spawn(self: &Rc<Self>, entry: Entry) -> io::Result<usize> {
        let stack = spare_stack()?;
        let (ring, parent) = (Rc::downgrade(self), self.running());
        let slot = self.fibers.borrow().len() + 1;
        let fiber = Fiber::with_stack(stack, move |yielder, ()| {
            let ring = ring.upgrade().expect("the driver of a fiber holds its ring");
            ring.slot(slot).yielder.set(yielder);
            drop(ring);
            entry();
            parent
        });
        let stack = NEXT_STACK.replace(NEXT_STACK.get() + 1);
        let slot_of_it = Slot { stack, fiber: RefCell::new(fiber), yielder: Cell::new(null()) };
        self.fibers.borrow_mut().push(Rc::new(slot_of_it));
        Ok(slot)
    }

    /// Runs `drive` with fibers for `entries`, given their slots. Returns only once all of them are done; a
    /// fiber that is not done when `drive` returns ends the process.
    ///
    /// # Errors
    /// What the host says: no memory.
    pub fn scope<'a>(
        self: &Rc<Self>,
        entries: Vec<Box<dyn FnOnce() + 'a>>,
        drive: impl FnOnce(&[usize]),
    ) -> io::Result<()> {
        /// Ends the process unless it is forgotten.
        struct AbortOnDrop;
        impl Drop for AbortOnDrop {
            fn drop(&mut self) {
                eprintln!("a fiber is left with borrows that end here");
                abort();
            }
        }
        let guard = AbortOnDrop;
        let mut fibers = Vec::new();
        for entry in entries {
            // SAFETY: only the lifetime changes. The entry runs on a fiber that is done when this function
            // returns, else the guard ends the process; where this function never returns, what the entry
            // borrows lives for ever.
            let entry = unsafe { std::mem::transmute::<Box<dyn FnOnce() + 'a>, Entry>(entry) };
            fibers.push(self.spawn(entry).expect("a stack for a fiber"));
        }
        drive(&fibers);
        if fibers.iter().all(|&slot| self.is_done(slot)) {
            std::mem::forget(guard);
        }
        Ok(())
    }

    /// Whether the fiber has run to its end.
    pub fn is_done(&self, slot: usize) -> bool {
        slot != HOST && slot != self.running() && self.slot(slot).fiber.borrow().done()
    }

    /// Suspends the running slot and goes on with another, until a slot switches back.
    ///
    /// # Panics
    /// Where the other slot is done.
    pub fn switch_to(&self, to: usize) {
        let from = self.running();
        if to == from {
            return;
        }
        assert!(!self.is_done(to), "a fiber that is done cannot go on");
        if from == HOST {
            return self.drive(to);
        }
        let yielder = self.slot(from).yielder.get();
        // SAFETY: slot `from` runs, so this is its stack, on which its yielder lies until its entry returns;
        // the entry set the pointer before it ran anything that could call this.
        unsafe { &*yielder }.suspend(to);
    }

    /// Resumes one fiber after the other, as they say, until the host thread is to go on.
    fn drive(&self, first: usize) {
        let mut next = first;
        while next != HOST {
            let slot = self.slot(next);
            self.running.set(next);
            if slot.fiber.borrow().done() {
                eprintln!("a fiber ended and its parent has ended before");
                abort();
            }
            let _on_its_stack = OnStack::enter(slot.stack);
            next = match slot.fiber.borrow_mut().resume(()) {
                CoroutineResult::Yield(to) => to,
                CoroutineResult::Return(parent) => parent,
            };
        }
        self.running.set(HOST);
    }

    fn slot(&self, number: usize) -> Rc<Slot> {
        self.fibers.borrow()[number - 1].clone()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for slot in self.fibers.get_mut().drain(..) {
            match Rc::try_unwrap(slot).map(|slot| slot.fiber.into_inner()) {
                Ok(fiber) if fiber.done() => keep_stack(fiber.into_stack()),
                // To drop a suspended coroutine would unwind its stack.
                Ok(fiber) => std::mem::forget(fiber),
                Err(slot) => std::mem::forget(slot),
            }
        }
    }
}

thread_local!(static SPARE: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) });

fn spare_stack() -> io::Result<DefaultStack> {
    SPARE.with_borrow_mut(Vec::pop).map_or_else(|| DefaultStack::new(STACK_BYTES), Ok)
}

fn keep_stack(stack: DefaultStack) {
    SPARE.with_borrow_mut(|spare| spare.push(stack));
}
