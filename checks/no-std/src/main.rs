//! A program without std or alloc that takes the library's locks on a machine of one CPU: the smallest
//! embedder.
//!
//! It links only if nothing beneath it drags the standard library in. It is not run.
#![no_std]
#![no_main]

#[cfg(feature = "drag-std-in")]
extern crate std;

mod only;

use core::hint::black_box;
use core::panic::PanicInfo;
use interleaf::sync::{RwLock, SpinLock};
use interleaf::units::{VirtAddr, VpnRange};
use only::Only;

static COUNT: SpinLock<u64, Only, 3> = SpinLock::new(0);
static SHARED: RwLock<Only, 1> = RwLock::new();

/// The entry that the host would call.
// SAFETY: nothing else in this program bears the name.
#[unsafe(no_mangle)]
pub extern "C" fn _start() -> ! {
    let shared = SHARED.read();
    *COUNT.lock() += 1;
    drop(shared);
    black_box(interleaf_linux_abi::check_mincore(0x1000, 0x2000, 0, 0).is_ok());
    black_box(VpnRange::from_bytes(VirtAddr(0x1000), 0x2000).map(VpnRange::len_bytes));
    stop()
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    stop()
}

fn stop() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// `core` was built to unwind and names this; nothing here unwinds.
// SAFETY: nothing else in this program bears the name.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

// `core` copies and fills memory by the names of C's functions. A kernel brings its own; here C's stand in.
#[link(name = "c")]
unsafe extern "C" {}
