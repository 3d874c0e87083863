//! Tests of laying out initial stacks.

use super::*;
use std::string::String;
use std::vec::Vec;

const TOP: VirtAddr = VirtAddr(0x7fff_f000_0000);

fn program() -> Vec<u8> {
    let mut bytes = std::vec![0; 120];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[16..20].copy_from_slice(&[2, 0, 62, 0]);
    bytes[32] = 64;
    bytes[54..58].copy_from_slice(&[56, 0, 1, 0]);
    bytes[26] = 0x40;
    bytes[64] = 1;
    bytes[68] = 5;
    bytes[82] = 0x40;
    bytes[104] = 120;
    bytes
}

fn words(image: &StackImage) -> Vec<u64> {
    let chunks = image.bytes().chunks_exact(8);
    chunks.map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

fn text(image: &StackImage, at: u64) -> String {
    let from = (at - image.start_addr().0) as usize;
    let bytes = image.bytes()[from..].iter().take_while(|&&byte| byte != 0);
    bytes.map(|&byte| byte as char).collect()
}

#[test]
fn a_program_finds_its_arguments_and_its_headers() {
    let file = program();
    let program = Program::parse(&file, VirtAddr(1 << 47)).unwrap();
    for argv in [&["p"][..], &["prog", "one"], &["a", "b", "c"], &[]] {
        let image = StackImage::new(&program, argv.iter().copied().map(Argument), TOP).unwrap();
        assert!(image.start_addr().0.is_multiple_of(16));
        let words = words(&image);
        assert_eq!(words[0] as usize, argv.len());
        for (n, argument) in argv.iter().enumerate() {
            assert_eq!(text(&image, words[1 + n]), *argument);
        }
        let after = 1 + argv.len();
        assert_eq!(words[after..after + 4], [0, 0, AT_PHDR, program.headers_at.0]);
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    let file = program();
    let program = Program::parse(&file, VirtAddr(1 << 47)).unwrap();
    let long = "x".repeat(MAX_BYTES);
    assert_eq!(StackImage::new(&program, [Argument(&long)].into_iter(), TOP).unwrap_err(), TooLong);
    assert_eq!(StackImage::new(&program, [Argument("a"); 33].into_iter(), TOP).unwrap_err(), TooLong);
}
