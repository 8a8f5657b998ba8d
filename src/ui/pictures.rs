//! Owns the pictures of the screen in `assets/`, made from the program itself. A test holds them, so that what the
//! README shows is what is drawn today; `UPDATE_PICTURES=1 cargo test --lib pictures` draws them anew.

use std::fmt::Write;
use std::path::Path;

use crossterm::event::KeyCode;
use ratatui::buffer::Cell;
use ratatui::style::{Color, Modifier};

use super::tests::beside_a_crash;
use crate::app::model::Source;
use crate::app::replay::tests::failed_run;
use crate::app::tests::running::{another, at_the_change, opened_on_a_recorded_run, ran, read_record};
use crate::app::tests::{Session, torch_log};
use crate::app::{Model, Msg};
use crate::gpu::Reading;
use crate::gpu::testing::process;
use crate::record::End;
use crate::report::block::{self, Block};
use crate::units::Bytes;

/// Of a character, in the picture's units.
const WIDTH: f32 = 8.4;
const HEIGHT: f32 = 18.0;
const MARGIN: f32 = 12.0;

const PAPER: &str = "#0d1117";
const INK: &str = "#d0d7de";
const DIM: &str = "#8b949e";

/// What makes two characters next to each other look alike.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Look {
    ink: &'static str,
    bold: bool,
    underlined: bool,
    reversed: bool,
}

impl Look {
    fn of(cell: &Cell) -> Look {
        let dim = cell.modifier.contains(Modifier::DIM);
        let ink = match cell.fg {
            Color::Cyan => "#39c5cf",
            Color::Indexed(173) => "#d7875f",
            Color::Indexed(67) => "#5f87af",
            Color::Indexed(137) => "#af875f",
            Color::Indexed(103) => "#8787af",
            Color::Indexed(143) => "#afaf5f",
            Color::Magenta => "#d2a8ff",
            Color::Green => "#56d364",
            Color::Red => "#ff7b72",
            Color::Reset if dim => DIM,
            Color::Reset => INK,
            other => panic!("the pictures know no {other:?}"),
        };
        Look {
            ink,
            bold: cell.modifier.contains(Modifier::BOLD),
            underlined: cell.modifier.contains(Modifier::UNDERLINED),
            reversed: cell.modifier.contains(Modifier::REVERSED),
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The screen of a model as the inside of an SVG picture.
fn drawn(model: &Model) -> String {
    let (columns, lines) = model.size;
    let buffer = super::view(model).0.painted();
    let mut svg = String::new();
    for y in 0..lines {
        let mut x = 0;
        while x < columns {
            let look = Look::of(&buffer[(x, y)]);
            let from = x;
            let mut text = String::new();
            while x < columns && Look::of(&buffer[(x, y)]) == look {
                text.push_str(buffer[(x, y)].symbol());
                x += 1;
            }
            run(&mut svg, (from, y), x - from, &text, look);
        }
    }
    svg
}

/// Characters that look alike, at their place.
fn run(svg: &mut String, (x, y): (u16, u16), count: u16, text: &str, look: Look) {
    let (left, top, width) = (MARGIN + f32::from(x) * WIDTH, MARGIN + f32::from(y) * HEIGHT, f32::from(count) * WIDTH);
    if look.reversed {
        writeln!(svg, r#"<rect x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{HEIGHT}" fill="{}"/>"#, look.ink)
            .unwrap();
    }
    let shown = text.trim_end();
    if shown.is_empty() {
        return;
    }
    let skipped = shown.chars().take_while(|character| *character == ' ').count();
    let shown = shown.trim_start();
    let left = left + WIDTH * f32::from(u16::try_from(skipped).unwrap());
    let width = WIDTH * f32::from(u16::try_from(shown.chars().count()).unwrap());
    let ink = if look.reversed { PAPER } else { look.ink };
    let weight = if look.bold { r#" font-weight="bold""# } else { "" };
    let line = if look.underlined { r#" text-decoration="underline""# } else { "" };
    writeln!(
        svg,
        r#"<text x="{left:.1}" y="{:.1}" textLength="{width:.1}" fill="{ink}"{weight}{line}>{}</text>"#,
        top + HEIGHT * 0.76,
        escaped(shown)
    )
    .unwrap();
}

/// A whole picture of a screen of this size around what was drawn; what it shows in a sentence, for those who hear it.
fn picture((columns, lines): (u16, u16), said: &str, inside: &str) -> String {
    let (width, height) = (f32::from(columns) * WIDTH + 2.0 * MARGIN, f32::from(lines) * HEIGHT + 2.0 * MARGIN);
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" font-family="'DejaVu Sans Mono','Cascadia Mono',Menlo,Consolas,monospace" font-size="14" xml:space="preserve">
<title>{}</title>
<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>
{inside}</svg>
"#,
        escaped(said)
    )
}

/// One screen after the other, each for so many seconds, round and round.
fn film(size: (u16, u16), said: &str, scenes: &[(f32, String)]) -> String {
    let whole: f32 = scenes.iter().map(|(seconds, _)| seconds).sum();
    let mut inside = String::from("<style>g{visibility:hidden}");
    let mut from = 0.0;
    for (at, (seconds, _)) in scenes.iter().enumerate() {
        let (start, end) = (from / whole * 100.0, (from + seconds) / whole * 100.0);
        let before =
            if at == 0 { String::new() } else { format!("0%{{visibility:hidden}}{start:.2}%{{visibility:hidden}}") };
        let after = if at + 1 == scenes.len() { String::new() } else { format!("{end:.2}%,100%{{visibility:hidden}}") };
        write!(
            inside,
            "@keyframes s{at}{{{before}{:.2}%{{visibility:visible}}{:.2}%{{visibility:visible}}{after}}}#s{at}{{animation:s{at} {whole}s step-end infinite}}",
            start + if at == 0 { 0.0 } else { 0.01 },
            end - if at + 1 == scenes.len() { 0.0 } else { 0.01 },
        )
        .unwrap();
        from += seconds;
    }
    inside.push_str("</style>\n");
    for (at, (_, scene)) in scenes.iter().enumerate() {
        writeln!(inside, "<g id=\"s{at}\">\n{scene}</g>").unwrap();
    }
    picture(size, said, &inside)
}

fn at_size(mut session: Session, size: (u16, u16)) -> Session {
    session.send(Msg::Resize(size.0, size.1));
    session
}

fn verdict() -> Session {
    let mut session = beside_a_crash();
    session.paste(&torch_log());
    session
}

/// A terminal with these lines.
fn terminal(lines: &[String], (columns, rows): (u16, u16)) -> String {
    let look = Look { ink: INK, bold: false, underlined: false, reversed: false };
    let wrapped = lines.iter().flat_map(|line| crate::text::broken(line, columns.into()));
    let wrapped: Vec<String> = wrapped.collect();
    let shown = wrapped.iter().skip(wrapped.len().saturating_sub(rows.into()));
    let mut svg = String::new();
    for (row, line) in (0..).zip(shown) {
        run(&mut svg, (0, row), u16::try_from(line.chars().count()).unwrap(), line, look);
    }
    svg
}

/// A machine with a notebook's process, on which the recorded run ran out of memory.
fn after_the_run(size: (u16, u16)) -> Session {
    let mut session = Session::new();
    let mut notebook = process(7538, Bytes::mib(11_500));
    notebook.command = Reading::Known("jupyter-sweep 3000".into());
    session.sample(vec![notebook]);
    at_size(opened_on_a_recorded_run(session), size)
}

/// From the failure to the proof: the command's output with the block below it, the fixes, the recording, the changed
/// command, and that it passed.
fn story(size: (u16, u16)) -> Vec<(f32, String)> {
    let mut session = after_the_run(size);
    let played = failed_run();
    let output = played.output.as_deref().unwrap();
    let block = Block {
        advice: session.model.advice.as_ref().unwrap(),
        recording: &played.recording,
        log: output,
        unicode: true,
        snapshots: &[],
        opens_with: "oomdoctor --last",
    };
    let below = block::text(&block);
    let prompt = ["$ oomdoctor run -- python train.py --batch 8"];
    let lines = prompt.into_iter().chain(output.lines()).chain([""]).chain(below.lines()).map(str::to_owned);
    let mut scenes = vec![(6.0, terminal(&lines.collect::<Vec<_>>(), size)), (4.0, drawn(&session.model))];
    session.keys("C");
    read_record(&mut session, failed_run());
    scenes.push((4.0, drawn(&session.model)));
    session.press(KeyCode::Esc);
    let mut session = at_the_change(session);
    session.keys("a");
    session.read();
    scenes.push((4.0, drawn(&session.model)));
    ran(&mut session, End::Code(0), Some(another(End::Code(0), 60, false)));
    scenes.push((4.0, drawn(&session.model)));
    scenes
}

fn all() -> Vec<(&'static str, String)> {
    let (small, large) = ((100, 34), (120, 40));
    let mut served = beside_a_crash();
    served.model.config.source = Source::Live;
    served.paste(&torch_log());
    served.keys("s");
    served.press(KeyCode::Enter);
    served.read();
    vec![
        (
            "screen.svg",
            picture(
                large,
                "oomdoctor: who holds GPU memory, the pasted error, the verdict in one sentence, and the first step",
                &drawn(&at_size(verdict(), large).model),
            ),
        ),
        (
            "story.svg",
            film(
                small,
                "From the crash to the proof: the block below the output, the fixes, the recording, the changed command, passed",
                &story(small),
            ),
        ),
        (
            "let-go.svg",
            picture(
                (80, 24),
                "oomdoctor asks before it has Ollama unload a model",
                &drawn(&at_size(served, (80, 24)).model),
            ),
        ),
    ]
}

#[test]
fn the_pictures_are_of_the_present_screen() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let update = std::env::var_os("UPDATE_PICTURES").is_some();
    for (name, svg) in all() {
        let path = folder.join(name);
        if update {
            std::fs::write(&path, &svg).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == svg, "{name} is stale: UPDATE_PICTURES=1 cargo test --lib pictures draws it anew");
    }
}
