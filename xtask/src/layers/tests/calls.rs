//! Tests of the rule on short pages.

use super::*;

fn found(page: &str) -> Vec<String> {
    let methods = ["map", "fork"].map(String::from).into();
    let exists = |folder: &str, name: &str| name == "map/base" && folder == COLUMNS[0] || name == "Fork";
    check_page(page, &methods, exists).into_iter().map(|violation| violation.what).collect()
}

const HEAD: &str = "## Calls\n\n| calls | unit tests | models | pairs | Linux |\n|---|---|---|---|---|\n";

#[test]
fn a_row_for_each_method_with_names_that_exist_is_right() {
    let rows = "| `map()` | `map/base` | | `Fork` | |\n| `fork()` | none | | | |\n\n## Next\n| `gone()` |\n";
    assert_eq!(found(&format!("{HEAD}{rows}")), [""; 0]);
}

#[test]
fn a_method_without_a_row_and_a_row_without_its_method_are_found() {
    let rows = "| `map()` `unmap()` | `map/base` | | | |\n";
    assert_eq!(
        found(&format!("{HEAD}{rows}")),
        ["AddressSpace has no public method unmap", "fork() has no row under ## Calls"]
    );
    assert_eq!(found("No such section.").len(), 2);
}

#[test]
fn a_name_that_does_not_exist_in_its_column_is_found() {
    let rows = "| `map()` | `map/gone` | `map/base` | | |\n| `fork()` | | | | `Fork`, `gone` |\n";
    assert_eq!(
        found(&format!("{HEAD}{rows}")),
        ["there is no map/gone", "there is no map/base", "there is no gone"]
    );
}

#[test]
fn the_calls_of_the_library_have_their_rows() {
    assert_eq!(check(&crate::root()), []);
    assert!(surface::public_methods(&crate::root(), TYPE).contains("fork"));
}
