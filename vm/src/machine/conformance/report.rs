//! The rules in words, and what a run of the suite has found of each.

use core::fmt;

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident: $sentence:literal,)*) => {
        /// A rule of a platform; its number is the discriminant.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Rule {
            $(#[doc = $sentence] $name,)*
        }

        impl Rule {
            /// Every rule, in order.
            pub const ALL: &'static [Rule] = &[$(Rule::$name),*];

            /// The rule in words.
            pub const fn sentence(self) -> &'static str {
                match self {
                    $(Rule::$name => $sentence,)*
                }
            }
        }
    };
}

rules! {
    IdBelowCount: "a CPU's id is below the number of CPUs",
    IdStays: "a CPU's id is its own and stays while preemption is off, however deep",
    MachineStays: "all CPUs of a machine name it by one number, which stays",
    ContextOfThread: "the context is one for each thread and keeps what is noted in it",
    ClockForward: "the clock never goes back",
    InterruptsNest: "turning interrupts off returns the state before, and restoring restores it",
    SleepLooks: "a thread does not sleep on a word that has changed",
    WakeReaches: "a sleeper is woken",
    RelaxHandles: "a CPU that relaxes handles interrupts, once for each or fewer",
    OffDefers: "a CPU with interrupts off handles them when they are on again, and not before",
    WindowInverse: "phys_of is the inverse of the window",
    WindowContiguous: "the window of contiguous memory is contiguous",
    TableIsWindow: "a table is the memory of its frame",
    ZeroExact: "zero fills the block named and nothing else",
    CopyExact: "copy moves the block named and nothing else",
    ClaimedOnce: "memory is claimed once, and only where there is memory",
    ZeroPast: "zero_nontemporal fills the bytes named and nothing else",
    RecordWindow: "a record window shows the frames behind it, and elsewhere zeroes",
    WalksTables: "user code is translated by the loaded tables, and faults where they say nothing",
    FlushRange: "after flush_range no page of the range is translated as before",
    FlushUpper: "after flush_range no table cut out above the range is walked",
    FlushAll: "after flush_all nothing is translated as before",
    RootSwitches: "load_root translates through the new root, and nothing cached from the old",
    RootNone: "without a root nothing is translated",
    RootTold: "loaded_root says no root but the one that the CPU translates through",
    InterruptReaches: "an interrupt makes every CPU of the set run the handler, with its data",
    InterruptWakes: "a CPU whose thread sleeps handles an interrupt before the thread goes on, or sooner",
    InterruptSpares: "an interrupt makes no other CPU run the handler",
    HandlerRemoved: "a handler that was removed runs no more",
    HandlerOwned: "a handler that is set, of interrupts or of helpers, is not replaced by another",
    BarrierOrders: "barrier_all is a full fence on every CPU",
    HelperRuns: "a helper runs the handler, on one CPU, and holds nothing",
    HelperAwaited: "once the helpers' handler is removed no helper runs it",
    HelperExpedited: "a helper that is expedited gets its CPU in time, also beside threads that are ready",
}

/// The result of a rule's test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Tested, and not found broken.
    Holds,
    /// Tested, not found broken, and not shown: it breaks only where two CPUs run at once, and as good as
    /// never did they. They share one CPU of a host, or the host was busy.
    NeverOverlapped,
    /// Found broken.
    Broken,
    /// Not tested: the machine has one CPU, no MMU, no record windows, or no helpers, or a test before it did
    /// not end.
    Untested,
}

/// The results of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    pub(super) tested: u64,
    pub(super) broken: u64,
    pub(super) apart: u64,
}

impl Report {
    /// The result of a rule's test.
    pub fn verdict(&self, rule: Rule) -> Verdict {
        let has = |rules: u64| rules >> rule as u8 & 1 == 1;
        match (has(self.tested), has(self.broken), has(self.apart)) {
            (_, true, _) => Verdict::Broken,
            (_, _, true) => Verdict::NeverOverlapped,
            (true, ..) => Verdict::Holds,
            _ => Verdict::Untested,
        }
    }

    /// Whether no rule was found broken.
    pub fn holds(&self) -> bool {
        self.broken == 0
    }

    /// Every rule with its verdict.
    pub fn iter(&self) -> impl Iterator<Item = (Rule, Verdict)> {
        Rule::ALL.iter().map(|&rule| (rule, self.verdict(rule)))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|(rule, verdict)| {
            let verdict = match verdict {
                Verdict::Holds => "holds",
                Verdict::NeverOverlapped => "never overlapped",
                Verdict::Broken => "BROKEN",
                Verdict::Untested => "untested",
            };
            writeln!(f, "{:>2} {verdict:16} {}", rule as u8 + 1, rule.sentence())
        })
    }
}
