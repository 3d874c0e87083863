//! Every public function is called, and none corrupts memory.

use interleaf_hostile::{call, floors, sources};
use std::collections::BTreeSet;
use std::path::Path;

/// Functions that are not called, and why.
const NOT_CALLED: [(&str, &str); 17] = [
    ("DetachedTable::pfn", NO_VALUE),
    ("DetachedTable::retire", NO_VALUE),
    ("Gather::add", NO_VALUE),
    ("Gather::table", NO_VALUE),
    ("PfnMapFrames::cache", NO_VALUE),
    ("PfnMapFrames::frames", NO_VALUE),
    ("PfnMapFrames::rights", NO_VALUE),
    ("Mapper::map", NO_VALUE),
    ("Mapper::protect", NO_VALUE),
    ("Report::holds", NO_VALUE),
    ("Report::iter", NO_VALUE),
    ("Report::verdict", NO_VALUE),
    ("RootTable::pfn", NO_VALUE),
    ("Unhooked::accessed", NO_VALUE),
    ("Unhooked::dirty", NO_VALUE),
    ("Unhooked::pages", NO_VALUE),
    ("Unhooked::table", NO_VALUE),
];

/// Only the crate itself, or an unsafe function, makes a value of a type that the function takes.
const NO_VALUE: &str = "no safe function gives a value to call it with";

#[test]
fn every_public_function_is_called_with_hostile_arguments() {
    floors::run_all();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vm/src/lib.rs");
    let public = sources::public_functions(&root);
    assert!(public.safe.len() > 300, "the list of functions was found: {}", public.safe.len());
    let called = call::called();
    let left: BTreeSet<&str> = NOT_CALLED.iter().map(|(name, _)| *name).collect();
    let missing: Vec<&String> =
        public.safe.iter().filter(|name| !called.contains(*name) && !left.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "{} public functions are not called: {missing:#?}", missing.len());
    let unknown: Vec<&&str> = left.iter().filter(|name| !public.safe.contains(**name)).collect();
    assert!(unknown.is_empty(), "left out, but not public: {unknown:?}");
}
