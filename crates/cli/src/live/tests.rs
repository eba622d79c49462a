use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use trilane_engine::{MessagesOut, Options, Plan, Progress, Quantiles, SecondOut};

use super::view::View;

fn view(options: Options) -> View {
    let urls = vec!["http://127.0.0.1:8080/hello".into()];
    let plan = Plan::new(&Options { urls, ..options });
    View::new(&plan.unwrap())
}

fn quantiles(ms: f64) -> Quantiles {
    Quantiles {
        p50: Some(ms / 1e3),
        p90: Some(ms * 2.0 / 1e3),
        p99: Some(ms * 3.0 / 1e3),
        max: Some(ms * 4.0 / 1e3),
        ..Quantiles::default()
    }
}

fn second(number: u32, is_open: bool) -> SecondOut {
    SecondOut {
        schema: "trilane.second/1",
        start_s: f64::from(number),
        length_s: 1.0,
        ok: 12_345,
        failed: 6,
        requests_per_s: 12_345.0,
        sent: 12_360,
        asked_per_s: is_open.then_some(15_000.0),
        service: quantiles(1.5),
        response: is_open.then(|| quantiles(7.0)),
        late: is_open.then(|| quantiles(0.02)),
        messages: None,
        failures: BTreeMap::from([("status", 4), ("timeout", 2)]),
        status: BTreeMap::from([(200, 12_345), (503, 4)]),
        bytes_sent: 1_500_000,
        bytes_received: 3 << 20,
        open: 64,
        in_flight: 63,
        backlog: 17,
        cpu_s: 0.4,
    }
}

/// A run of the open or the closed model, after so many seconds of thirty.
fn running(seconds: u32, is_open: bool) -> View {
    let mut view = view(Options {
        rate: is_open.then_some(15_000.0),
        duration: Some(Duration::from_secs(30)),
        warmup: Some(Duration::from_secs(1)),
        ..Options::default()
    });
    for number in 0..seconds {
        let so_far = SecondOut {
            start_s: 0.0,
            length_s: f64::from(number + 1),
            ..second(number, is_open)
        };
        view.add(second(number, is_open), so_far);
    }
    view.elapsed = Some(Duration::from_secs(1 + u64::from(seconds)));
    view.progress = Progress {
        connected: true,
        ok: 20_000,
        failed: 6,
    };
    view
}

fn drawn(view: &View, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let cells: Vec<_> = buffer.content().iter().map(|cell| cell.symbol()).collect();
    let lines = cells.chunks(width.into()).map(|line| line.concat());
    lines.map(|line| line.trim_end().to_owned()).collect()
}

/// Whether each number of a line has what it is of behind it. Names such as p50, and the URL, are none.
fn has_units(line: &str) -> bool {
    const UNITS: [&str; 16] = [
        "requests/s",
        "requests",
        "messages/s",
        "iterations/s",
        "connections",
        "responses",
        "µs",
        "ms",
        "s",
        "min",
        "B",
        "KiB",
        "MiB",
        "KiB/s",
        "MiB/s",
        "B/s",
    ];
    let words: Vec<_> = line
        .split([' ', '│'])
        .filter(|word| !word.is_empty())
        .collect();
    words.iter().enumerate().all(|(at, word)| {
        // The code of a status says that of what follows.
        let is_bare = word.parse::<f64>().is_ok();
        let next = words
            .get(at + 1)
            .map(|next| next.trim_end_matches([',', ';', ':']));
        !is_bare || next.is_some_and(|next| UNITS.contains(&next))
    })
}

#[test]
fn every_number_has_a_unit() {
    for is_open in [false, true] {
        let lines = drawn(&running(12, is_open), 140, 45);
        let wrong: Vec<_> = lines.iter().filter(|line| !has_units(line)).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
    assert!(!has_units("rate  12345  12345 requests/s"));
    assert!(!has_units("time 12 "));
}

#[test]
fn the_open_model_has_what_was_asked_for_and_how_late_it_left() {
    let text = drawn(&running(12, true), 140, 45).join("\n");
    for shown in [
        "12345 requests/s",
        "asked for 15000 requests/s",
        "response p99  21.000 ms",
        "late p99      60.0 µs",
        "17 requests overdue",
        "200: 12345 responses",
        "timeout: 2 requests",
        "3.00 MiB/s",
        "18 s left; measured for 12 s; 12345 requests ok; 6 requests failed",
        "rate over time",
        "response time over time",
        "lateness over time",
        "asked for",
        "requests/s",
        "12 s",
        "q ends the run",
    ] {
        assert!(text.contains(shown), "{shown}:\n{text}");
    }
}

#[test]
fn the_closed_model_has_no_more_than_it_knows() {
    let text = drawn(&running(12, false), 140, 45).join("\n");
    assert!(text.contains("service p99   4.500 ms"), "{text}");
    assert!(text.contains("63 requests"), "{text}");
    for hidden in ["asked for", "late ", "overdue", "response p"] {
        assert!(!text.contains(hidden), "{hidden}:\n{text}");
    }
}

#[test]
fn streams_have_messages() {
    let messages = |received_per_s, ms| {
        Some(MessagesOut {
            sent: 10,
            received: 7000,
            sent_per_s: 10.0,
            received_per_s,
            latency: Some(quantiles(ms)),
        })
    };
    let mut view = running(0, false);
    let last = SecondOut {
        messages: messages(7000.0, 1.0),
        ..second(0, false)
    };
    let all = SecondOut {
        messages: messages(6500.0, 2.0),
        ..second(0, false)
    };
    view.add(last, all);
    let lines = drawn(&view, 140, 45);
    let text = lines.join("\n");
    for shown in [
        "messages in   7000 messages/s       6500 messages/s",
        "messages out  10 messages/s",
        "message p99   3.000 ms              6.000 ms",
    ] {
        assert!(text.contains(shown), "{shown}:\n{text}");
    }
    let wrong: Vec<_> = lines.iter().filter(|line| !has_units(line)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn before_the_first_second_the_stage_is_told() {
    let mut view = running(0, false);
    (view.elapsed, view.progress) = (None, Progress::default());
    assert_eq!(drawn(&view, 80, 24)[1], "connecting");
    view.elapsed = Some(Duration::from_millis(300));
    view.progress = Progress {
        connected: true,
        ok: 7,
        failed: 1,
    };
    let warming = "31 s left; warming up; 7 requests ok; 1 requests failed";
    assert_eq!(drawn(&view, 80, 24)[1], warming);
    view.elapsed = Some(Duration::from_millis(1300));
    let begun = "30 s left; measuring: the first second is under way";
    assert_eq!(drawn(&view, 80, 24)[1], begun);
    view.ending = true;
    assert_eq!(drawn(&view, 80, 24)[1], "ending: the report follows");
}

#[test]
fn a_run_of_so_many_requests_has_some_left() {
    let mut view = view(Options {
        requests: Some(30_000),
        ..Options::default()
    });
    view.elapsed = Some(Duration::from_secs(1));
    view.progress = Progress {
        connected: true,
        ok: 20_000,
        failed: 6,
    };
    assert!(drawn(&view, 80, 24)[1].starts_with("9994 requests left; "));
}

#[test]
fn what_has_no_room_is_left_out_as_a_whole() {
    let view = running(12, true);
    for width in 1..=100 {
        for height in [1, 2, 3, 10, 24, 60] {
            let lines = drawn(&view, width, height);
            let numbers = lines.iter().filter(|line| !line.contains(['│', '┌', '└']));
            for line in numbers {
                assert!(has_units(line), "{width} columns: {line}");
            }
        }
    }
    let narrow = drawn(&view, 40, 24).join("\n");
    assert!(
        narrow.contains("rate          12345 requests/s\n"),
        "{narrow}"
    );
}

#[test]
fn the_course_does_not_grow_for_ever() {
    let view = running(2000, false);
    let (first, last) = (view.course.front().unwrap(), view.course.back().unwrap());
    assert_eq!((first.start_s, last.start_s), (1400.0, 1999.0));
    let text = drawn(&view, 100, 40).join("\n");
    assert!(text.contains("1400 s") && text.contains("2000 s"), "{text}");
    assert!(VecDeque::len(&view.course) <= 600);
}

#[test]
fn three_keys_end_the_run() {
    let key = |code, modifiers| super::ends(KeyEvent::new(code, modifiers));
    let (plain, control) = (KeyModifiers::NONE, KeyModifiers::CONTROL);
    for (code, modifiers, ends) in [
        (KeyCode::Char('q'), plain, true),
        (KeyCode::Char('Q'), KeyModifiers::SHIFT, true),
        (KeyCode::Esc, plain, true),
        (KeyCode::Char('c'), control, true),
        (KeyCode::Char('q'), control, false),
        (KeyCode::Char('c'), plain, false),
        (KeyCode::Enter, plain, false),
    ] {
        assert_eq!(key(code, modifiers), ends, "{code:?} {modifiers:?}");
    }
}
