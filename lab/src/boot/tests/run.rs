use super::*;

#[test]
fn the_kernels_lines_come_whole_and_the_exit_code_is_none_of_them() {
    let mut begun = b"first\nexit code 3\nsecond\nthi".to_vec();
    assert_eq!(whole_lines(&mut begun), b"first\nsecond\n");
    begun.extend_from_slice(b"rd\nexit co");
    assert_eq!(whole_lines(&mut begun), b"third\n");
    assert_eq!(whole_lines(&mut begun), b"");
    begun.extend_from_slice(b"de 200\nexit code of its own\n");
    assert_eq!(whole_lines(&mut begun), b"exit code of its own\n");
    begun.resize(PIECE_BYTES + 1, b'x');
    assert_eq!(whole_lines(&mut begun).len(), PIECE_BYTES + 1);
}
