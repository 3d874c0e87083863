//! Tests of the counts on short texts.

use super::*;

fn surface(file: &str, text: &str) -> Surface {
    let mut surface = Surface::default();
    surface.add(file, &tokens(text));
    surface
}

fn count(text: &str, name: &str) -> (usize, usize) {
    let count = surface("vm/src/space/mod.rs", text).types.get(name).copied().unwrap_or_default();
    (count.all, count.public)
}

#[test]
fn methods_are_counted_in_every_block_of_a_type() {
    let text = "impl<'v, M: Machine> Space<'v, M> { pub fn one(&self) { match 1 { _ => {} } }
        pub(super) const fn two(&self) -> impl Fn() -> u64 { || 2 } }
        impl<F: Fn(u64) -> u64> Space<F> { pub const unsafe fn three(&self, to: [u8; 4]); }
        impl fmt::Debug for Space<'_, Lock<{ RANK }>> where Self: Sized { fn fmt(&self) {} }";
    assert_eq!(count(text, "Space"), (4, 2));
    assert_eq!(count("unsafe impl Cpu for Space { fn id() {} }", "Space"), (1, 0));
    assert_eq!(count(text, "Debug"), (0, 0), "methods are the type's, not the trait's");
}

#[test]
fn what_is_no_method_is_not_counted() {
    let text = "trait Space { fn one(&self) {} } mod space { impl Space { fn two(&self) {} } }
        fn three() -> impl Space { four() } // impl Space { fn five() {} }";
    assert_eq!(count(text, "Space"), (0, 0));
}

#[test]
fn a_closure_or_a_function_inside_of_a_method_is_part_of_it() {
    assert_eq!(count("impl Space { fn one(&self) { fn two() {} } fn three() {} }", "Space"), (2, 0));
}

#[test]
fn a_free_function_may_take_another_type_or_none() {
    let found = |text| surface("vm/src/space/mod.rs", text).violations.len();
    assert_eq!(found("fn one(space: &AddressSpace<'_, M>) {}"), 1);
    assert_eq!(found("fn one(space: &'a mut AddressSpace<'_, M>) {}"), 1);
    assert_eq!(found("fn one<M: Machine>(memory: &'m Memory<'m, M>, pfn: Pfn) -> u64 { 1 }"), 1);
    assert_eq!(found("fn one(entries: &Entries<'_, M>) -> u64 { let space: &AddressSpace = 1; }"), 0);
    assert_eq!(found("impl Value { fn of(space: &AddressSpace<'_, M>) {} }"), 0);
}

/// Else a limit would hold for a type that has another name by now.
#[test]
fn a_type_that_has_a_limit_has_methods() {
    let types = Surface::of(&crate::root()).types;
    assert!(LIMITS.iter().all(|limit| types[limit.name].all > 0));
}

#[test]
fn a_type_may_have_as_many_methods_as_it_may() {
    for limit in LIMITS {
        let text = format!("impl {} {{ fn one() {{}} fn two() {{}} }}", limit.name);
        let found = |most| {
            let mut surface = surface("vm/src/frame/mod.rs", &text);
            surface.limit(&Limit { most, ..*limit });
            surface.violations.iter().filter(|violation| violation.file == limit.files).count()
        };
        assert_eq!((found(2), found(1)), (0, 1));
    }
}
