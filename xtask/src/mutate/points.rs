//! The points that stand in the sources, against those that are listed.

use std::fs;
use std::path::Path;

/// A point, and the file that it stands in.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// Its name.
    pub name: String,
    /// The file, from the root.
    pub file: String,
}

/// Every point below `root`, sorted by name; a name that stands at two places, twice.
pub fn in_tree(root: &Path) -> Vec<Point> {
    let sources = crate::sources(&root.join("vm/src")).into_iter();
    let mut points: Vec<Point> = sources
        .flat_map(|path| {
            let file = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).unwrap_or_default();
            let names: Vec<String> = in_source(&text).map(String::from).collect();
            names.into_iter().map(move |name| Point { name, file: file.clone() })
        })
        .collect();
    points.sort();
    points
}

/// Where sources and list differ: every point stands in the sources once, and every point there is listed.
pub fn differences(points: &[Point], listed: &[&str]) -> Vec<String> {
    let times = |name: &str| points.iter().filter(|point| point.name == name).count();
    let listed_times = |name: &str| listed.iter().filter(|other| **other == name).count();
    let wrong_times = listed.iter().filter(|name| times(name) != 1);
    let mut found: Vec<String> =
        wrong_times.map(|name| format!("{name} stands in the sources {} times", times(name))).collect();
    let mislisted = points.iter().filter(|point| listed_times(&point.name) != 1);
    found.extend(mislisted.map(|point| {
        format!("{}: {} is listed {} times", point.file, point.name, listed_times(&point.name))
    }));
    found
}

/// The names of the points in a source, comments excepted.
pub fn in_source(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split("mutant!(\"").skip(1)).filter_map(|rest| rest.split('"').next())
}
