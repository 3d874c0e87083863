//! Huge pages in an experiment: the policy, and in which particulars Linux and the library differ.
//!
//! The model follows either. Both are compared with the model that has their own rules, so a difference that
//! has no name here is found; `docs/design/linux-semantics.md` says of each name why the library differs.

use interleaf::vma::{HugePolicy, MthpPolicies};

/// What the processes of an experiment may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugeSetting {
    /// Which mappings get huge pages. With [`HugePolicy::Never`] and no mTHP sizes the process
    /// has refused them (`PR_SET_THP_DISABLE`), and no advice overrules that.
    pub policy: HugePolicy,
    /// Which mTHP sizes are used.
    pub sizes: MthpPolicies,
    /// Where Linux and the library differ.
    pub rules: HugeRules,
}

impl HugeSetting {
    /// Linux, with this policy.
    #[must_use]
    pub const fn linux(policy: HugePolicy) -> Self {
        Self { policy, sizes: MthpPolicies::NEVER, rules: HugeRules::LINUX }
    }

    /// The library, with this policy.
    #[must_use]
    pub const fn library(policy: HugePolicy) -> Self {
        Self { policy, sizes: MthpPolicies::NEVER, rules: HugeRules::LIBRARY }
    }

    /// The same, with these mTHP sizes.
    #[must_use]
    pub const fn with_sizes(self, sizes: MthpPolicies) -> Self {
        Self { sizes, ..self }
    }

    /// Whether there is nothing but base pages.
    #[must_use]
    pub fn is_never(&self) -> bool {
        self.policy == HugePolicy::Never && self.sizes.is_never()
    }
}

bitflags::bitflags! {
    /// What Linux does and the library does not.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct HugeRules: u32 {
        /// A load that maps the huge zero page gives the mapping an anon identity.
        const LOADS_GIVE_IDENTITY = 1;
        /// A huge leaf lies in one mapping: where a mapping begins or ends inside of it, it is split. In the
        /// library advice about a part leaves it; changes of rights split it.
        const MAPPINGS_SPLIT = 2;
        /// fork gives the child a table wherever the parent has one; the library where it has pages.
        const FORK_COPIES_EMPTY_TABLES = 4;
        /// MADV_DONTNEED of all that an (empty then) table covers frees it (`CONFIG_PT_RECLAIM`).
        const DISCARDS_FREE_TABLES = 8;
        /// A store to the huge zero page gets a huge page whatever the mapping says by then.
        const STORES_IGNORE_REFUSAL = 16;
        /// MADV_FREE of a part of a huge page splits the page itself, and what holds zeros becomes the zero
        /// page.
        const FREE_FINDS_ZEROS = 32;
        /// MADV_COLLAPSE of base pages wants an identity, and no page.
        const COLLAPSE_WANTS_IDENTITY = 64;
        /// MADV_COLLAPSE ends at a region that nothing maps; the library goes on to the next.
        const COLLAPSE_STOPS_AT_NOTHING = 128;
    }
}

impl HugeRules {
    /// Linux 6.18.
    pub const LINUX: Self = Self::all();
    /// The library.
    pub const LIBRARY: Self = Self::empty();
}
