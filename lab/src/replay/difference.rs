//! Where the replay and the recording differ, by kind. A kind is explained, for a reason that is checked
//! where it is named, or not: then the check fails.

use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

macro_rules! kinds {
    ($($variant:ident $explained:literal $text:literal,)*) => {
        /// A kind of difference.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DifferenceKind {
            $(#[doc = $text] $variant,)*
        }

        impl DifferenceKind {
            /// Every kind.
            pub const ALL: &'static [DifferenceKind] = &[$(DifferenceKind::$variant,)*];

            /// What differs, and why if that is known.
            pub fn text(self) -> &'static str {
                match self { $(DifferenceKind::$variant => $text,)* }
            }

            /// Whether it must be so, as things are.
            pub fn is_explained(self) -> bool {
                match self { $(DifferenceKind::$variant => $explained,)* }
            }
        }
    };
}

kinds! {
    Answer false "a call is answered otherwise",
    Place false "a mapping is put elsewhere",
    Refused false "a fault that Linux resolved is refused",
    Allowed false "a fault for which Linux sent a signal is resolved",
    NoFault false "a page that Linux faulted in is present",
    Cause false "a page was absent for one and forbidden for the other",
    Map false "rights or sharing of pages at the end",
    Edge false "a mapping at the end begins or ends elsewhere",
    Attributes false "attributes of a mapping at the end",
    FilePlace true "a file of 2 MiB or more, which its file system puts on a huge-page boundary",
    Meanwhile true "a place that a call of another thread, under way at the same time, gave back or took",
    MeanwhileEdge true "a mapping begins or ends elsewhere: beside it, or beside what it was joined with, \
        calls or first faults of several threads were under way at the same time",
    FileAround true "a page of a file, absent here, that Linux's page cache had when a page around it was \
        loaded",
    FileCache true "a page of a file, present here, that Linux's page cache had given up",
    FileWritten true "a store to a page of a shared file that Linux's page cache had written back",
    FileLength true "a length of a file as an access tells it, which no call here does",
    StandInPage true "a page of a device or a segment: present or writable in its stand-in, or absent",
    StandInAnswer true "a call on a device, answered otherwise for its stand-in",
    ExecPresent true "a page that exec had filled already, absent in the replay",
    MeanwhileFault true "a fault on a page whose mapping another thread was changing at the same time",
    OtherThread true "a page for which another thread had taken a fault just before",
    DuringFork true "a page on which another thread faulted while a fork was under way",
    RefusedFork true "a store to a page from which a fork that Linux refused had taken the right to write",
    ForkedZero true "a zero page that our fork copied; Linux's copies none of a mapping that was not written",
    KernelRefused true "a fault in the kernel that made a call fail",
    KernelRetried true "a fault that the kernel took twice: the first time it could not wait",
    Limit true "a call refused by a resource limit of the process",
    ImposedGuard true "an access to a guard page (MADV_GUARD_INSTALL), which the library does not have, \
        refused as imposed",
    ImposedKey true "an access that a protection key refuses, which the library does not have, refused as \
        imposed",
    ImposedPage true "a page that Linux fills, keeps or refuses as a call asked that is not built",
    SharedCollapse true "a collapse of shared memory, which Linux makes huge and the library refuses",
    HugeSupply true "a page of a huge page, or of an mTHP folio, here, a base page for Linux, whose \
        setting is ours: its supply of free huge frames decided",
    TableFreed true "a page of a region whose table MADV_DONTNEED emptied: Linux frees the table, and may \
        map a huge page there again; the library keeps it",
    CollapseRefused true "a page of a region that MADV_COLLAPSE may have made huge before Linux refused \
        the rest",
    HugeSetting true "a page whose size is another because the setting of huge pages is not the recorded one",
    ImposedEdge true "a mapping begins or ends elsewhere at the edge of a call that is not built",
}

impl Serialize for DifferenceKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

/// How often each kind was met, and the first that is not explained.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Differences {
    /// Number of each kind that was met.
    pub counts: BTreeMap<DifferenceKind, u64>,
    /// The first that is not explained.
    pub first: Option<First>,
}

/// The first difference that is not explained.
#[derive(Clone, Debug, Serialize)]
pub struct First {
    /// What differs.
    pub kind: DifferenceKind,
    /// What the two sides say.
    pub text: String,
    /// Index of the event in its life.
    #[serde(skip)]
    pub event: usize,
}

impl Differences {
    /// Adds one, met at an event. `text` is asked only for the first that is not explained.
    pub fn add(&mut self, kind: DifferenceKind, event: usize, text: impl FnOnce() -> String) {
        *self.counts.entry(kind).or_default() += 1;
        if !kind.is_explained() && self.first.is_none() {
            self.first = Some(First { kind, text: text(), event });
        }
    }

    /// How many are not explained.
    pub fn unexplained(&self) -> u64 {
        self.counts.iter().filter(|(kind, _)| !kind.is_explained()).map(|(_, count)| count).sum()
    }
}

impl fmt::Display for DifferenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
