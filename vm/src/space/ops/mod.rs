//! The operations of an address space, one file for each call.
//!
//! | file | call | holds |
//! |---|---|---|
//! | `map` | mmap: what a request maps; anonymous memory | its range, to write |
//! | `place` | where a mapping goes | all of the space to write, then what is chosen |
//! | `map_object` | mmap of an object that a handle keeps | its range, to write |
//! | `map_pfn` | mmap of PFN-mapped frames: device memory, guest memory | its range, to write |
//! | `map_hugetlb` | mmap of the hugetlb pool: MAP_HUGETLB | its range, to write |
//! | `unmap` | munmap | its range, to write |
//! | `protect` | mprotect | its range, to write |
//! | `remap` | mremap: checks, shorter and longer in place | all of the space, to write |
//! | `remap_move` | a mapping gets another address | as `remap` |
//! | `madvise` | madvise | to write where attributes change; to read where contents do |
//! | `collapse` | MADV_COLLAPSE, khugepaged | as `fork`, region by region |
//! | `scan` | a step of a scan for regions to collapse | nothing, to look |
//! | `mbind` | mbind | its range, to write |
//! | `brk` | brk | its range, to write |
//! | `mincore` | mincore | its range, to read |
//! | `populate` | MAP_POPULATE, MADV_POPULATE_* | nothing, or the page to read, for each page |
//! | `fork` | fork | all of the space, to write |
//! | `fork_pinned` | copies for the child of what is pinned | as `fork` |
//! | `fork_leaf` | what the child gets of a leaf above the last level | as `fork` |
//! | `fork_object` | private mappings of objects, which get no first copy meanwhile | as `fork` |
//! | `unmap_sharers` | hugetlb pages that children share, unmapped from these | a page, to read |
//! | `shown` | objects that a range shows, for `msync`, `truncate` | its range, to read, by mapping |
//! | `truncate` | ftruncate, holes: pages that an object loses | one range of one space at a time, to read |
//! | `msync` | msync | its range, to read, mapping by mapping |
//! | `write_back` | fsync: dirty pages of objects | as `truncate` |
//! | `seals` | F_ADD_SEALS of an object | as `truncate` |
//! | `will_need` | MADV_WILLNEED: pages of a pager's | its range, to read, mapping by mapping |
//! | `object_io` | read and write of an object | |
//! | `exit` | the end of a space | all of the space, to write |
//! | `parallel` | how `populate`, `unmap` and `exit` divide large ranges among helpers | |

mod brk;
mod collapse;
mod exit;
mod fork;
mod fork_leaf;
mod fork_object;
mod fork_pinned;
mod madvise;
mod map;
mod map_hugetlb;
mod map_object;
mod map_pfn;
mod mbind;
mod mincore;
mod msync;
mod object_io;
mod parallel;
mod place;
mod populate;
mod protect;
mod remap;
mod remap_move;
mod scan;
mod seals;
mod shown;
mod truncate;
mod unmap;
mod unmap_sharers;
mod will_need;
mod write_back;

pub use collapse::Collapsed;
pub use madvise::Advice;
pub use map::{MapBacking, MapRequest, Place, Sharing};
pub use mbind::Misplaced;
pub(in crate::space) use mincore::Mincore;
pub use msync::SyncMode;
pub use object_io::ObjectError;
pub(in crate::space) use place::page_len;
pub use remap::{RemapFlags, RemapRequest};
pub use scan::ScanStep;
pub(in crate::space) use write_back::MadeDirty;
pub use write_back::WrittenBack;
