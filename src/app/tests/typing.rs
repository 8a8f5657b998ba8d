//! Text that was meant for another window is typed into this program: whatever it asks on the way, it signals nobody and
//! sends no request. A person still needs two keys.

use super::*;

/// What people type into a shell, with an x or an Enter and a y behind it in every distance.
const SHELL: &[&str] = &[
    "exit",
    "ssh ray",
    "exec bash; history",
    "vim exp/my.yaml",
    "x",
    "y",
    "xy",
    "xyy",
    "xxyyxy",
    "x y",
    "yes | apt install nginx",
    "y",
    "sudo apt install libx11-dev python3-yaml",
    "y",
    "export CUDA_VISIBLE_DEVICES=1; python train.py",
    "nvidia-smi --query-compute-apps=pid --format=csv -lms 500 | xargs -I{} ps -o pid,user {}",
    "tar xzvf proxy.tar.gz && cd proxy && ./configure --prefix=$HOME/.local && make -j8 && yes",
    "exiftool *.jpg; ffmpeg -i x.mp4 -vf fps=1 y.mp4",
    "docker exec -it ray-head bash -c 'rm -rf /tmp/ray'",
    "max(x, y)",
    "x = y",
    "plt.plot(x, y)",
    "y, x = np.unravel_index(idx, img.shape)",
    "tmux attach -t exp",
    "kill -9 4242",
    "4242",
    "galaxy proxy oxygen epoxy taxonomy xylem lexicography",
    "git commit -m 'Fix typo in axis names, they say x for y'",
    "y",
    "j",
    "x",
    "y",
    "",
    "y",
    "  y",
];

/// Prose, source code, logs.
const TEXTS: &[&str] = &[
    include_str!("../../../README.md"),
    include_str!("../../../ARCHITECTURE.md"),
    include_str!("../gate.rs"),
    include_str!("../../gpu/guard.rs"),
    include_str!("../../../tests/scenarios/two-processes-are-both-named.ron"),
    include_str!("../../../tests/scenarios/vllm-left-its-engine-behind.ron"),
    include_str!("../../../tests/scenarios/kohya-trains-flux.ron"),
];

/// The rhythm of somebody's keys: the same for the same seed.
struct Rhythm {
    state: u64,
    /// From the shortest to the longest time between two keys, in milliseconds.
    pace: (u64, u64),
    /// They stop to think after a blank or an Enter, now and then.
    thinks: bool,
}

impl Rhythm {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.state >> 33
    }

    fn after(&mut self, before: char) -> Duration {
        let (least, most) = self.pace;
        let pause = least + self.next() % (most - least + 1);
        let stops = self.thinks && before.is_whitespace() && self.next().is_multiple_of(3);
        ms(if stops { pause + 400 + self.next() % 2000 } else { pause })
    }
}

fn typed(session: &mut Session, text: &str, rhythm: &mut Rhythm) {
    for character in text.chars() {
        let code = match character {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            character => KeyCode::Char(character),
        };
        session.key(code);
        let pause = rhythm.after(character);
        // A key that stood alone acts in between.
        let acts = pause.min(gate::ALONE);
        session.wait(acts);
        session.wait(pause - acts);
    }
    session.wait(ms(2000));
}

/// With a step that terminates, a step that sends a request, and processes to select and mark.
fn with_everything() -> Session {
    let mut session = Session::new();
    session.sample(vec![process(4242, held()), runner(1000)]);
    session.select(4242);
    session.paste(&torch_log());
    assert!(session.model.steps_ahead().iter().any(|step| step.release.is_some()));
    session
}

fn harmed(session: &Session) -> bool {
    session.effects.iter().any(|effect| matches!(effect, Effect::Signal(_) | Effect::Release(..)))
}

/// Types this into each region, from a plain screen each time.
fn assert_harmless(start: &Session, text: &str, seed: u64) {
    let at_the_request = {
        let mut session = start.clone();
        session.model.focus = Region::Steps;
        session.keys("s");
        session
    };
    let regions = [Region::Processes, Region::Input, Region::Steps].map(|region| {
        let mut session = start.clone();
        session.model.focus = region;
        session
    });
    for (nth, session) in regions.into_iter().chain([at_the_request]).enumerate() {
        let paces = [(10, 300), (26, 60), (110, 180), (250, 300)];
        let pace = paces[(usize::try_from(seed).unwrap() + nth) % paces.len()];
        let mut session = session;
        session.wait(ms(1000));
        let mut rhythm = Rhythm { state: seed * 31 + nth as u64, pace, thinks: seed % 2 == 1 };
        typed(&mut session, text, &mut rhythm);
        assert!(!harmed(&session), "region {nth}, seed {seed}, pace {pace:?}: {text:?}");
    }
}

#[test]
fn what_is_typed_for_a_shell_signals_nobody_and_sends_nothing() {
    let start = with_everything();
    for (seed, line) in (0..).zip(SHELL) {
        assert_harmless(&start, line, seed);
        assert_harmless(&start, &format!("{line}\n"), seed + 1);
    }
    let all = SHELL.join("\n");
    for seed in 0..2 {
        assert_harmless(&start, &all, seed);
        assert_harmless(&start, &SHELL.join(" "), seed + 10);
    }
}

#[test]
fn logs_prose_and_source_code_signal_nobody_and_send_nothing() {
    let start = with_everything();
    let lines = TEXTS.iter().flat_map(|text| text.lines());
    // Without an x nothing asks about a signal, without a y nothing answers.
    let lines: Vec<&str> = lines.filter(|line| line.contains('x') && line.contains('y')).collect();
    assert!(lines.len() > 50, "{}", lines.len());
    for (nth, pair) in lines.chunks(2).enumerate() {
        // From an x on: whatever stands before it may lead into the search or a list, where letters are only text.
        let text: String = pair.join("\n").chars().skip_while(|character| *character != 'x').collect();
        let end = if nth % 2 == 0 { "\n" } else { "" };
        assert_harmless(&start, &format!("{text}{end}"), nth as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(22), ..ProptestConfig::with_cases(16) })]

    #[test]
    fn no_string_of_the_letters_that_matter_signals_anybody(
        text in "[xy jn4242\\n]{1,40}", seed in 0_u64..1000
    ) {
        assert_harmless(&with_everything(), &text, seed);
    }
}

#[test]
fn a_person_who_reads_needs_two_keys() {
    for region in [Region::Processes, Region::Steps] {
        let mut session = with_everything();
        session.model.focus = region;
        session.wait(ms(1000));
        session.key(KeyCode::Char('x'));
        session.wait(gate::ALONE);
        session.wait(DELIBERATE);
        session.key(KeyCode::Char('y'));
        session.wait(SETTLE);
        assert_eq!(session.signals(), [(4242, Signal::Term)], "{region:?}");
    }
}

#[test]
fn text_behind_a_closed_question_asks_nothing_until_there_is_silence() {
    let mut session = with_everything();
    session.model.focus = Region::Processes;
    session.press(KeyCode::Char('x'));
    session.wait(ms(700));
    // The rest of a word, and an x of another one.
    for character in "tract x".chars() {
        session.key(KeyCode::Char(character));
        session.wait(ms(500));
        assert!(session.model.question.is_none(), "{character}");
    }
    session.wait(ms(200));
    session.key(KeyCode::Char('x'));
    session.wait(ms(30));
    assert!(session.model.question.is_some(), "who pauses can ask");
}

#[test]
fn an_x_or_enter_right_behind_another_key_asks_nothing() {
    for (region, key) in [(Region::Processes, KeyCode::Char('x')), (Region::Steps, KeyCode::Enter)] {
        let mut session = at_the_step_of(runner(1000));
        session.model.focus = region;
        session.select(4242);
        let apart = if key == KeyCode::Enter { gate::APART_FROM_ENTER } else { gate::APART };
        for (pause, asks) in [(apart - ms(10), false), (apart, true)] {
            session.wait(ms(1000));
            session.key(KeyCode::Char('g'));
            session.wait(pause);
            session.key(key);
            session.wait(ms(30));
            assert_eq!(session.model.question.is_some(), asks, "{key:?} {pause:?} behind");
        }
    }
}
