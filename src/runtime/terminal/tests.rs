//! The terminal is left whatever fails on the way.

use super::*;

/// A terminal that refuses what it is told at first.
struct Stubborn {
    refusals: usize,
    written: Vec<u8>,
}

impl io::Write for Stubborn {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.refusals > 0 {
            self.refusals -= 1;
            return Err(io::Error::other("refused"));
        }
        self.written.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_screen_is_left_even_where_a_step_before_fails() {
    for refusals in 0..3 {
        let mut terminal = Stubborn { refusals, written: Vec::new() };
        assert_eq!(leave(&mut terminal).is_ok(), refusals == 0, "{refusals}");
        let written = String::from_utf8(terminal.written).unwrap();
        assert!(written.contains("\x1b[?1049l") && written.contains("\x1b[?25h"), "{refusals}: {written:?}");
    }
}
