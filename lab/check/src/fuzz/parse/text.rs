//! Lines of `/proc` and `/sys`, numbers of the command line, the console of a booted kernel.

use super::Parser;
use crate::oracle_host::parse_line;
use interleaf_lab::boot::{Memory, count};
use interleaf_lab::trace::image::parse_smaps;
use interleaf_lab::trace::record::host::parse_list;
use interleaf_lab::trace::record::procfs::parse_stat;
use interleaf_lab::trace::record::tracepoint::{self, Tracepoint};

pub(super) const PARSERS: [Parser; 6] = [
    Parser { name: "maps and smaps", weight: 3, samples: smaps, read: read_smaps },
    Parser { name: "sizes of memory", weight: 1, samples: sizes, read: read_size },
    Parser { name: "counts of a boot", weight: 1, samples: counts, read: read_counts },
    Parser { name: "lists of CPUs", weight: 2, samples: lists, read: read_list },
    Parser { name: "formats of tracepoints", weight: 1, samples: formats, read: read_format },
    Parser { name: "stat of a process", weight: 1, samples: stats, read: read_stat },
];

fn lines(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn smaps() -> Vec<Vec<u8>> {
    lines(&[
        "7f3990770000-7f3990772000 rw-p 00000000 00:00 0 \n",
        "55d0c0000000-55d0c0021000 r-xp 00001000 fe:01 1234  /usr/bin/a program (deleted)\n\
         Size:                132 kB\nRss:                  64 kB\nVmFlags: rd ex mr mw me dw \n\
         7ffd1000-7ffd2000 rw-s 00000000 00:01 77  [stack]\nRss: 4 kB\n",
    ])
}

fn read_smaps(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(mappings) = parse_smaps(&text) {
        mappings.iter().for_each(|mapping| drop(mapping.line()));
    }
    text.lines().for_each(|line| {
        let _ = parse_line(line);
    });
}

fn sizes() -> Vec<Vec<u8>> {
    lines(&["256M", "64G", "1g", "18446744073709551615M", "99999999999999999999G"])
}

fn read_size(bytes: &[u8]) {
    if let Ok(memory) = String::from_utf8_lossy(bytes).parse::<Memory>() {
        assert!((64 << 20..=64 << 30).contains(&memory.bytes()));
    }
}

fn counts() -> Vec<Vec<u8>> {
    let names = [
        "write_fault",
        "zeroing",
        "read_fault",
        "unmap_page",
        "unmap_zero_page",
        "copying_bytes",
        "copy_on_write",
        "reuse",
        "map_unmap_mib",
        "null_call",
    ];
    vec![names.map(|name| format!("count {name} 123\n")).concat().into_bytes()]
}

fn read_counts(bytes: &[u8]) {
    let _ = count::figures(interleaf_lab::boot::FaultPath::Locked, &String::from_utf8_lossy(bytes));
}

fn lists() -> Vec<Vec<u8>> {
    lines(&["0-3,8", "0", "0-1,4-5,255"])
}

fn read_list(bytes: &[u8]) {
    assert!(parse_list(&String::from_utf8_lossy(bytes)).len() <= 1 << 16);
}

/// The format of a tracepoint that has all fields which a recording looks for.
fn format_of(number: usize) -> String {
    let field = |(at, name): (usize, &str)| {
        format!("\tfield:unsigned long {name};\toffset:{};\tsize:8;\tsigned:0;\n", 8 + 8 * at)
    };
    let names = ["address", "error_code", "id", "args[6]", "ret", "pid", "clone_flags"];
    let fields: String = names.into_iter().enumerate().map(field).collect();
    format!("name: a\nID: {number}\nformat:\n{fields}\nprint fmt: \"\"\n")
}

/// A tracepoint of that format.
pub(super) fn tracepoint(name: &str) -> Tracepoint {
    let numbers = ["page_fault_user", "page_fault_kernel", "sys_enter", "sys_exit", "task_newtask"];
    let at = numbers.iter().position(|end| name.ends_with(end)).unwrap_or(0);
    tracepoint::parse(&format_of(at + 1)).expect("the format is whole")
}

fn formats() -> Vec<Vec<u8>> {
    vec![format_of(3).into_bytes()]
}

fn read_format(bytes: &[u8]) {
    let _ = tracepoint::parse(&String::from_utf8_lossy(bytes));
}

fn stats() -> Vec<Vec<u8>> {
    lines(&["42 (a ) name) S 1 42 42 0 -1 4194560 136 0 0 0 18446744073709551615\n"])
}

fn read_stat(bytes: &[u8]) {
    let _ = parse_stat(&String::from_utf8_lossy(bytes));
}
