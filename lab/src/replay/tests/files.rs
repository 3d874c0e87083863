use super::*;
use crate::trace::{ProcessExit, Started};
use std::sync::Arc;

fn mapping(device: &str, inode: u64, name: &str) -> Mapping {
    Mapping { device: device.into(), inode, name: name.into(), ..Mapping::default() }
}

fn image(mappings: Vec<Mapping>) -> Image {
    Image { mappings, ..Image::default() }
}

fn mapped(name: &str, result: i64) -> Call {
    let args = [0, 4096, 1, 2, 3, 0];
    let file = Some(name.into());
    Call { sys: Sys::Mmap, args, result: Some(result), start_ns: 0, end_ns: 0, file, inode: None }
}

fn table(at_exec: Vec<Mapping>, calls: &[Call], at_exit: Vec<Mapping>) -> FileTable {
    let header = Header { image: image(at_exec), ..Header::default() };
    let event = |kind| Event { time_ns: 0, pid: 1, tid: 1, kind };
    let mut events: Vec<Event> = calls.iter().map(|call| event(Kind::Call(call.clone()))).collect();
    events.push(event(Kind::Exec(Started { image: Arc::new(image(vec![])) })));
    let ended = ProcessExit { status: 0, image: Some(Arc::new(image(at_exit))) };
    events.push(event(Kind::Exit(ended)));
    FileTable::of(&header, &events)
}

#[test]
fn a_file_is_the_same_by_whichever_name_and_call_it_was_mapped() {
    let [text, linked] = [mapping("fe:00", 7, "/lib/x"), mapping("fe:00", 7, "/usr/lib/x")];
    let files = table(vec![text.clone()], &[mapped("/lib/x", 0x1000)], vec![linked.clone()]);
    assert_eq!(files.len(), 1);
    assert_eq!(files.of_mapping(&text), files.of_mapping(&linked));
    assert_eq!(files.of_call(&mapped("/lib/x", 0x1000)), files.of_mapping(&text));
}

#[test]
fn another_device_inode_or_base_name_is_another_file() {
    let all = [
        mapping("fe:00", 7, "/lib/x"),
        mapping("fe:01", 7, "/lib/x"),
        mapping("fe:00", 8, "/lib/x"),
        mapping("fe:00", 7, "/lib/y"),
    ];
    assert_eq!(table(all.to_vec(), &[], vec![]).len(), 4);
}

#[test]
fn a_path_that_no_map_has_is_a_file_of_its_own_and_stays_one_when_it_is_deleted() {
    let calls = [mapped("/tmp/a", 0x1000), mapped("/tmp/a (deleted)", 0x2000), mapped("/tmp/b", 0x3000)];
    let files = table(vec![], &calls, vec![]);
    assert_eq!(files.len(), 2);
    assert_eq!(files.of_call(&calls[0]), files.of_call(&calls[1]));
}

#[test]
fn devices_pool_pages_and_what_was_not_mapped_are_no_files() {
    let names =
        ["/dev/zero (deleted)", "/dev/dri/card0", "/anon_hugepage (deleted)", "/SYSV00000001 (deleted)"];
    let calls: Vec<Call> = names.iter().map(|name| mapped(name, 0x1000)).chain([mapped("/x", -13)]).collect();
    assert_eq!(table(vec![mapping("00:00", 0, "[vdso]")], &calls, vec![]).len(), 0);
}

#[test]
fn memory_files_are_known_by_their_names() {
    let calls = [mapped("/memfd:x (deleted)", 0x1000), mapped("/dev/shm/x", 0x1000), mapped("/x", 0x1000)];
    let files = table(vec![], &calls, vec![]);
    let kinds = calls.map(|call| files.kind(files.of_call(&call).unwrap()));
    assert_eq!(kinds, [FileKind::Memory, FileKind::Memory, FileKind::Disk]);
}
