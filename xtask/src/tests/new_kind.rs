//! What the patch may change.

use super::*;

const PATCH: &str = "\
diff --git a/vm/src/a.rs b/vm/src/a.rs
--- a/vm/src/a.rs
+++ b/vm/src/a.rs
@@ -1 +1,2 @@
 a
+b
diff --git a/vm/src/new.rs b/vm/src/new.rs
new file mode 100644
--- /dev/null
+++ b/vm/src/new.rs
@@ -0,0 +1 @@
+c
";

#[test]
fn a_patch_changes_the_files_of_the_list_and_no_more_than_three() {
    let changed = files_of(PATCH);
    let list = |text| listed(text).unwrap();
    assert_eq!(changed, list("# two\nchanged vm/src/a.rs\nown vm/src/new.rs\n"));
    assert_eq!(refuse(&changed, &list("own vm/src/new.rs\n\nchanged vm/src/a.rs\n")), Ok(()));
    for text in ["changed vm/src/a.rs", "own vm/src/a.rs\nown vm/src/new.rs"] {
        assert!(refuse(&changed, &list(text)).is_err(), "{text}");
    }
    assert!(listed("vm/src/a.rs").is_err());
    let four = list("changed a\nchanged b\nchanged c\nchanged d\n");
    assert!(refuse(&four, &four).is_err());
    assert_eq!(refuse(&four[..3], &four[..3]), Ok(()));
}

#[test]
fn the_patch_that_is_committed_keeps_to_its_list() {
    let folder = crate::root().join("checks/new-kind");
    let changed = files_of(&read(&folder.join("new-kind.patch")).unwrap());
    let listed = listed(&read(&folder.join("files")).unwrap()).unwrap();
    assert_eq!(refuse(&changed, &listed), Ok(()));
    for file in changed {
        assert_eq!(crate::root().join(&file.path).exists(), !file.is_own, "{}", file.path);
    }
}

#[test]
fn a_copy_has_the_library_alone() {
    let manifest = "[workspace]\nmembers = [\"vm\", \"lab\"]\ndefault-members = [\"vm\"]\n[profile.dev]\n";
    assert_eq!(alone(manifest), "[workspace]\nmembers = [\"vm\"]\n[profile.dev]\n");
}
