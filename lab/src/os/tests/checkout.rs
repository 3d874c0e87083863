use super::*;

#[test]
fn a_package_that_is_not_there_is_said_and_not_built() {
    let line = build("interleaf-nothing", "nowhere", PROFILE).unwrap_err();
    assert!(line.contains("no package interleaf-nothing"), "{line}");
}

#[test]
fn the_profile_has_the_folder_that_cargo_gives_it() {
    assert!(folder_of("dev").ends_with("target/debug") && folder_of("release").ends_with("target/release"));
}
