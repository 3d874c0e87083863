//! Tests of the rules on the sources and on the fixtures, each of which breaks one.

use super::*;

fn fixture(name: &str) -> Vec<String> {
    let root = crate::root().join("xtask/fixtures").join(name);
    let (files, violations) = check(&root).unwrap();
    assert!(files > 0, "{name} is empty");
    violations.iter().map(Violation::to_string).collect()
}

#[test]
fn the_sources_keep_every_rule() {
    let (files, violations) = check(&crate::root()).unwrap();
    assert!(files > 10);
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
fn a_floor_that_names_a_higher_one_is_found() {
    assert_eq!(
        fixture("upward"),
        [
            "vm/src/frame/buddy.rs:3: frame names crate::space, which is above it",
            "vm/src/frame/buddy.rs:4: frame names crate::table, which is above it",
            "vm/src/frame/buddy.rs:9: frame names crate::vma, which is above it",
        ]
    );
}

#[test]
fn a_floor_that_names_its_stranger_is_found() {
    assert_eq!(
        fixture("strangers"),
        [
            "vm/src/table/mod.rs:3: table names crate::tlb, its stranger",
            "vm/src/vma.rs:4: vma names crate::object, its stranger",
        ]
    );
}

#[test]
fn a_path_that_leaves_its_floor_by_super_is_found() {
    assert_eq!(
        fixture("super"),
        [
            "vm/src/frame/mod.rs:3: super leaves the floor: name the other as crate::<floor>",
            "vm/src/frame/zone.rs:3: super leaves the floor: name the other as crate::<floor>",
        ]
    );
}

#[test]
fn a_module_that_is_no_floor_is_found() {
    assert_eq!(
        fixture("no-floor"),
        [
            "vm/src/frame/mod.rs:3: crate::helpers is no floor",
            "vm/src/helpers.rs:0: helpers is no floor of the library",
        ]
    );
}

#[test]
fn a_room_of_the_lab_that_names_a_higher_one_a_stranger_or_none_is_found() {
    assert_eq!(
        fixture("lab-floors"),
        [
            "lab/src/doctor.rs:0: doctor is no floor of the lab",
            "lab/src/machine/host.rs:3: unsafe stands outside of its places",
            "lab/src/measure/bench.rs:3: super leaves the floor: name the other as crate::<floor>",
            "lab/src/measure/mod.rs:4: measure names crate::cli, which is above it",
            "lab/src/trace/mod.rs:0: trace does not forbid unsafe code",
            "lab/src/trace/mod.rs:2: trace names crate::machine, its stranger",
        ]
    );
}

#[test]
fn machine_code_calls_the_kernel_above_it_through_one_file() {
    assert_eq!(
        fixture("kernel-floors"),
        [
            "kernel/src/arch/mod.rs:3: arch names crate::task, which is above it",
            "kernel/src/task/mod.rs:0: task does not forbid unsafe code",
            "kernel/src/task/mod.rs:3: task names crate::linux, which is above it",
        ]
    );
}

#[test]
fn the_lab_and_the_kernel_knowing_each_other_is_found() {
    assert_eq!(
        fixture("shelves"),
        [
            "kernel/src/main.rs:3: the kernel names the lab",
            "lab/Cargo.toml:2: lab depends on interleaf-kernel",
            "lab/src/lib.rs:3: the lab names the kernel",
            "linux-abi/src/lib.rs:3: the Linux ABI names the kernel",
            "vm/src/units.rs:4: the library names the lab",
            "vm/src/units.rs:5: the library names the Linux ABI",
        ]
    );
}

#[test]
fn unsafe_outside_of_its_places_is_found_and_inside_is_not() {
    assert_eq!(
        fixture("unsafe"),
        [
            "lab/src/measure/mod.rs:0: measure does not forbid unsafe code",
            "vm/src/machine/mod.rs:9: unsafe stands outside of its places",
            "vm/src/space/mod.rs:0: space does not forbid unsafe code",
        ]
    );
}

#[test]
fn shared_memory_that_does_not_go_through_the_door_is_found() {
    assert_eq!(
        fixture("door"),
        [
            "vm/src/frame/mod.rs:3: atomics come from crate::sync",
            "vm/src/space/mod.rs:7: atomics come from crate::sync",
        ]
    );
}

#[test]
fn a_file_that_matches_on_a_kind_of_memory_is_found() {
    assert_eq!(
        fixture("kinds"),
        ["vm/src/space/mod.rs:6: a variant of LeafClass outside of its file: ask it for the rule"]
    );
}

#[test]
fn a_space_that_does_all_itself_is_found() {
    assert_eq!(
        fixture("surface"),
        [
            "vm/src/space:0: AddressSpace has 61 methods, and may have 60",
            "vm/src/space/mod.rs:83: step_of is a free function that takes `&AddressSpace`",
            "vm/src/table/mod.rs:18: Peeker writes an entry, and is not in the list of types that do",
        ]
    );
}
