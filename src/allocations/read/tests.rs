use super::*;

const SICK: [&[u8]; 1] = [include_bytes!("../../../tests/snapshots/sick.2.pickle")];

#[test]
fn the_sick() {
    for bytes in SICK {
        let dump = read(bytes).unwrap();
        assert_eq!(dump.segments.len(), 8);
    }
}
