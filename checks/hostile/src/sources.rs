//! The list of the library's public functions, taken from its sources.
//!
//! A function is public if safe code outside the crate can name it: a free function or an associated function
//! of a public item, where every module on some path to the item is public or re-exports it. Unsafe functions
//! are listed apart, and functions that exist only in tests or models not at all.

use proc_macro2::{Ident, TokenStream};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::parse::{ParseStream, Parser};
use syn::{
    Attribute, ImplItem, Item, ItemImpl, ItemMacro, ItemMod, Signature, TraitItem, Type, UseTree, Visibility,
};

/// The names of public functions: `module::function`, `Type::function`, or `Trait::function`.
#[derive(Debug, Default)]
pub struct Functions {
    /// Functions that safe code may call.
    pub safe: BTreeSet<String>,
    /// Functions that only unsafe code may call.
    pub unsafe_ones: BTreeSet<String>,
}

/// One module: its items, and where they came from.
struct Module {
    path: Vec<String>,
    items: Vec<Item>,
    is_public: bool,
}

/// The public functions of the crate whose root file is `root`.
///
/// # Panics
/// Where a source file cannot be read or parsed.
pub fn public_functions(root: &Path) -> Functions {
    let mut modules = BTreeMap::new();
    let directory = root.parent().expect("a root file lies in a directory");
    load(&mut modules, Vec::new(), root.to_path_buf(), directory.to_path_buf(), true);
    let public = public_names(&modules);
    let mut found = Functions::default();
    for module in modules.values() {
        collect(module, &public, &mut found);
    }
    found
}

/// Loads the module in `file` and its children; `directory` is where its children's files lie.
fn load(
    modules: &mut BTreeMap<Vec<String>, Module>,
    path: Vec<String>,
    file: PathBuf,
    directory: PathBuf,
    is_public: bool,
) {
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    add(modules, path, parsed.items, &directory, is_public);
}

/// Adds a module with its items, and loads its children.
fn add(
    modules: &mut BTreeMap<Vec<String>, Module>,
    path: Vec<String>,
    items: Vec<Item>,
    directory: &Path,
    is_public: bool,
) {
    for item in &items {
        let Item::Mod(child) = item else { continue };
        if is_for_tests(&child.attrs) {
            continue;
        }
        add_child(modules, &path, child, directory, is_public);
    }
    modules.insert(path.clone(), Module { path, items, is_public });
}

fn add_child(
    modules: &mut BTreeMap<Vec<String>, Module>,
    parent: &[String],
    child: &ItemMod,
    directory: &Path,
    parent_is_public: bool,
) {
    let name = child.ident.to_string();
    let path: Vec<String> = parent.iter().cloned().chain([name.clone()]).collect();
    let is_public = parent_is_public && is_pub(&child.vis);
    if let Some((_, items)) = &child.content {
        return add(modules, path, items.clone(), &directory.join(&name), is_public);
    }
    let (file, folder) = (directory.join(format!("{name}.rs")), directory.join(&name));
    let file = if file.exists() { file } else { folder.join("mod.rs") };
    load(modules, path, file, folder, is_public);
}

/// The paths of public items: those in public modules, and those that a public module re-exports.
fn public_names(modules: &BTreeMap<Vec<String>, Module>) -> BTreeSet<Vec<String>> {
    let mut public = BTreeSet::new();
    for module in modules.values().filter(|module| module.is_public) {
        for item in &module.items {
            if let Some(name) = public_item(item) {
                public.insert(join(&module.path, &name));
            }
        }
    }
    // Re-exports may pass through several modules, which are followed until nothing is new.
    let mut todo: Vec<Vec<String>> =
        modules.values().filter(|module| module.is_public).flat_map(re_exports).collect();
    while let Some(path) = todo.pop() {
        let (name, parent) = path.split_last().expect("a re-export names something");
        let Some(module) = modules.get(parent) else { continue };
        if name == "*" {
            let all = module.items.iter().filter_map(public_item).map(|name| join(parent, &name));
            public.extend(all);
            todo.extend(re_exports(module));
        } else if public.insert(path.clone()) {
            let further = re_exports(module).into_iter().filter(|path| path.last() == Some(name));
            todo.extend(further);
        }
    }
    public
}

/// The paths that a module's `pub use` items name.
fn re_exports(module: &Module) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for item in &module.items {
        if let Item::Use(item) = item
            && is_pub(&item.vis)
            && !is_for_tests(&item.attrs)
        {
            flatten(&item.tree, Vec::new(), &mut paths);
        }
    }
    paths.into_iter().map(|path| absolute(&module.path, path)).collect()
}

fn flatten(tree: &UseTree, prefix: Vec<String>, paths: &mut Vec<Vec<String>>) {
    match tree {
        UseTree::Path(path) => flatten(&path.tree, join(&prefix, &path.ident.to_string()), paths),
        UseTree::Name(name) => paths.push(join(&prefix, &name.ident.to_string())),
        UseTree::Rename(name) => paths.push(join(&prefix, &name.ident.to_string())),
        UseTree::Glob(_) => paths.push(join(&prefix, "*")),
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| flatten(tree, prefix.clone(), paths));
        }
    }
}

/// A path as written in `module`, from the root of the crate.
fn absolute(module: &[String], path: Vec<String>) -> Vec<String> {
    let mut base = module.to_vec();
    let mut rest = path.into_iter().peekable();
    while let Some(first) = rest.peek() {
        match first.as_str() {
            "crate" => base.clear(),
            "super" => drop(base.pop()),
            "self" => {}
            _ => break,
        }
        rest.next();
    }
    base.extend(rest);
    base
}

fn join(path: &[String], name: &str) -> Vec<String> {
    path.iter().cloned().chain([name.to_string()]).collect()
}

fn is_pub(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Whether an attribute leaves the item out of ordinary builds.
fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let condition = list.tokens.to_string();
        let names_tests = ["test", "loom", "doctest", "doc", "mutants"]
            .iter()
            .any(|name| condition.split(|c: char| !c.is_alphanumeric()).any(|word| word == *name));
        list.path.is_ident("cfg") && names_tests && !condition.starts_with("not")
    })
}

/// The name of a public item that is not a re-export or a module.
fn public_item(item: &Item) -> Option<String> {
    let (visibility, name, attributes) = match item {
        Item::Fn(item) => (&item.vis, &item.sig.ident, &item.attrs),
        Item::Struct(item) => (&item.vis, &item.ident, &item.attrs),
        Item::Enum(item) => (&item.vis, &item.ident, &item.attrs),
        Item::Union(item) => (&item.vis, &item.ident, &item.attrs),
        Item::Trait(item) => (&item.vis, &item.ident, &item.attrs),
        Item::Type(item) => (&item.vis, &item.ident, &item.attrs),
        _ => return None,
    };
    (is_pub(visibility) && !is_for_tests(attributes)).then(|| name.to_string())
}

/// Adds the public functions that a module defines.
fn collect(module: &Module, public: &BTreeSet<Vec<String>>, found: &mut Functions) {
    let names: BTreeSet<&str> = public.iter().filter_map(|path| path.last()).map(String::as_str).collect();
    for item in &module.items {
        match item {
            Item::Macro(item) => collect_made(item, module, &names, found),
            Item::Fn(item) if public.contains(&join(&module.path, &item.sig.ident.to_string())) => {
                // The module that outside code names it by: its own, or the floor that re-exports it.
                let home = if module.is_public { module.path.last() } else { module.path.first() };
                let home = home.map_or("interleaf", String::as_str);
                put(found, format!("{home}::{}", item.sig.ident), &item.sig);
            }
            Item::Impl(item) if !is_for_tests(&item.attrs) => collect_impl(item, &names, found),
            Item::Trait(item) if names.contains(item.ident.to_string().as_str()) => {
                for inner in &item.items {
                    // A function without a body is the implementor's; it is called through the library.
                    if let TraitItem::Fn(inner) = inner
                        && inner.default.is_some()
                        && !is_for_tests(&inner.attrs)
                    {
                        put(found, format!("{}::{}", item.ident, inner.sig.ident), &inner.sig);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Adds what an inherent implementation of a public type offers.
fn collect_impl(item: &ItemImpl, names: &BTreeSet<&str>, found: &mut Functions) {
    let Type::Path(target) = &*item.self_ty else { return };
    let Some(target) = target.path.segments.last().map(|segment| segment.ident.to_string()) else { return };
    if item.trait_.is_some() || !names.contains(target.as_str()) {
        return;
    }
    for inner in &item.items {
        if let ImplItem::Fn(inner) = inner
            && is_pub(&inner.vis)
            && !is_for_tests(&inner.attrs)
        {
            put(found, format!("{target}::{}", inner.sig.ident), &inner.sig);
        }
    }
}

/// Adds the functions of a type that a macro of this module makes, as the macro's text says: `name! { Type,
/// .. }`, or a macro that names the type itself.
fn collect_made(item: &ItemMacro, module: &Module, names: &BTreeSet<&str>, found: &mut Functions) {
    let is_it = |of: &ItemMacro| of.ident.as_ref().is_some_and(|name| item.mac.path.is_ident(name));
    for definition in &module.items {
        let Item::Macro(definition) = definition else { continue };
        if item.ident.is_some() || !is_it(definition) {
            continue;
        }
        let text = definition.mac.tokens.to_string();
        let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').collect();
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let named = words.windows(2).find(|pair| matches!(pair[0], "struct" | "enum")).map(|pair| pair[1]);
        let target = match named {
            Some("$") => first_name(item.mac.tokens.clone()),
            named => named.map(str::to_string),
        };
        if let Some(target) = target
            && (module.is_public || names.contains(target.as_str()))
        {
            put_made(found, &target, &words);
        }
    }
}

/// The first name after attributes.
fn first_name(tokens: TokenStream) -> Option<String> {
    let parser = |input: ParseStream<'_>| {
        Attribute::parse_outer(input)?;
        let name: Ident = input.parse()?;
        input.parse::<TokenStream>()?;
        Ok(name.to_string())
    };
    parser.parse2(tokens).ok()
}

/// Adds `pub fn name` wherever the words of a macro say it.
fn put_made(found: &mut Functions, target: &str, words: &[&str]) {
    for (at, _) in words.iter().enumerate().filter(|(_, word)| **word == "pub") {
        let after = &words[at + 1..];
        let (qualifiers, rest) = after.split_at(after.iter().take_while(is_qualifier).count());
        if let ["fn", name, ..] = rest {
            let list = if qualifiers.contains(&"unsafe") { &mut found.unsafe_ones } else { &mut found.safe };
            list.insert(format!("{target}::{name}"));
        }
    }
}

fn is_qualifier(word: &&&str) -> bool {
    matches!(**word, "const" | "unsafe")
}

fn put(found: &mut Functions, name: String, signature: &Signature) {
    if signature.unsafety.is_some() {
        found.unsafe_ones.insert(name);
    } else {
        found.safe.insert(name);
    }
}
