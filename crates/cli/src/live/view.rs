//! What is shown of a run, as a function of what is known of it.

use std::collections::VecDeque;
use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use trilane_engine::{MessagesOut, Plan, Progress, Quantiles, SecondOut};

use super::charts;
use crate::report::{printable, size, time};

/// Seconds that the charts go back at most.
const COURSE: usize = 600;
/// Columns of the names of rows, and of each cell behind them.
const NAME: usize = 14;
const CELL: usize = 22;

/// All that the view is drawn of.
#[derive(Debug)]
pub(super) struct View {
    pub(super) url: String,
    /// Warm-up and measurement, where their length ends the run.
    pub(super) expected: Option<Duration>,
    pub(super) warmup: Duration,
    /// How many requests end the run.
    pub(super) requests: Option<u64>,
    /// Whether the rate that was asked for is one of iterations of a scenario.
    pub(super) iterations: bool,
    /// Counts, of the warm-up too.
    pub(super) progress: Progress,
    /// Since the first connection was ready; none before.
    pub(super) elapsed: Option<Duration>,
    /// The run ends before its time.
    pub(super) ending: bool,
    /// The last second, and all that was measured by its end.
    latest: Option<(SecondOut, SecondOut)>,
    /// The last seconds.
    pub(super) course: VecDeque<SecondOut>,
}

/// A line of numbers.
struct Row {
    name: &'static str,
    cells: Vec<String>,
    style: Style,
}

impl View {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            url: printable(plan.url()),
            expected: plan.expected(),
            warmup: plan.warmup(),
            requests: plan.requests(),
            iterations: plan.counts_iterations(),
            progress: Progress::default(),
            elapsed: None,
            ending: false,
            latest: None,
            course: VecDeque::new(),
        }
    }

    /// A second is over, and so much was measured by then.
    pub(super) fn add(&mut self, second: SecondOut, so_far: SecondOut) {
        // What is left of a second at the end is too short for a rate.
        if second.length_s >= 0.5 || self.course.is_empty() {
            if self.course.len() == COURSE {
                self.course.pop_front();
            }
            self.course.push_back(second.clone());
        }
        self.latest = Some((second, so_far));
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let rows = self.rows();
        let heights = [
            Constraint::Length(2),
            Constraint::Length(rows.len() as u16 + 1),
            Constraint::Min(0),
        ];
        let [head, numbers, rest] = Layout::vertical(heights).areas(frame.area());
        let head_lines = vec![self.title(head.width), Line::raw(self.stage(head.width))];
        frame.render_widget(Paragraph::new(head_lines), head);
        let lines: Vec<_> = rows.iter().map(|row| row.line(numbers.width)).collect();
        frame.render_widget(Paragraph::new(lines), numbers);
        if !self.course.is_empty() {
            charts::draw(frame, rest, &self.course);
        }
    }

    /// What is loaded, and which key ends it.
    fn title(&self, width: u16) -> Line<'_> {
        const KEYS: &str = "q ends the run";
        let room = usize::from(width).saturating_sub(KEYS.len() + 2);
        let url: String = self.url.chars().take(room).collect();
        Line::from(vec![
            Span::styled(format!("{url:room$}  "), Style::new().bold()),
            Span::raw(KEYS).dim(),
        ])
    }

    /// How far the run is, as much of it as has room.
    fn stage(&self, width: u16) -> String {
        let mut text = String::new();
        for part in self.stages() {
            let separator = if text.is_empty() { "" } else { "; " };
            let columns = text.chars().count() + separator.len() + part.chars().count();
            if columns > width.into() {
                break;
            }
            text.push_str(separator);
            text.push_str(&part);
        }
        text
    }

    /// What is left of the run, what it does, and what came of it.
    fn stages(&self) -> Vec<String> {
        if self.ending {
            return vec!["ending: the report follows".to_owned()];
        }
        let Some(elapsed) = self.elapsed else {
            return vec!["connecting".to_owned()];
        };
        let (stage, ok, failed) = match &self.latest {
            Some((_, so_far)) => {
                let stage = format!("measured for {:.0} s", so_far.length_s);
                (stage, so_far.ok, so_far.failed)
            }
            None if elapsed < self.warmup => {
                let Progress { ok, failed, .. } = self.progress;
                ("warming up".to_owned(), ok, failed)
            }
            None => {
                let stage = "measuring: the first second is under way".to_owned();
                return self.left(elapsed).into_iter().chain([stage]).collect();
            }
        };
        let left = self.left(elapsed).into_iter();
        let counts = [
            format!("{ok} requests ok"),
            format!("{failed} requests failed"),
        ];
        left.chain([stage]).chain(counts).collect()
    }

    /// What is left of the run.
    fn left(&self, elapsed: Duration) -> Option<String> {
        if let Some(expected) = self.expected {
            return Some(format!("{} left", length(expected.saturating_sub(elapsed))));
        }
        let ended = self.progress.ok + self.progress.failed;
        // Iterations are not counted while it runs.
        let left = self.requests.filter(|_| !self.iterations)?;
        Some(format!("{} requests left", left.saturating_sub(ended)))
    }

    /// The numbers, the most important first: a low terminal shows as many as it has lines for.
    fn rows(&self) -> Vec<Row> {
        let Some((second, so_far)) = &self.latest else {
            return Vec::new();
        };
        let mut rows = vec![Row::new("", ["last second".into(), "so far".into()]).dim()];
        let rate = |of: &SecondOut| format!("{:.0} requests/s", of.requests_per_s);
        let mut row = Row::new("rate", [rate(second), rate(so_far)]);
        if let Some(asked) = second.asked_per_s {
            let unit = if self.iterations {
                "iterations"
            } else {
                "requests"
            };
            row.cells.push(format!("asked for {asked:.0} {unit}/s"));
        }
        rows.push(row);
        if let (Some(last), Some(all)) = (&second.messages, &so_far.messages) {
            rows.extend(messages(last, all));
        }
        let failed = |of: &SecondOut| format!("{} requests", of.failed);
        let row = Row::new("failed", [failed(second), failed(so_far)]);
        rows.push(if so_far.failed > 0 { row.red() } else { row });
        match (&second.response, &so_far.response) {
            (Some(last), Some(all)) => rows.extend(quantiles(RESPONSE, last, all)),
            _ => rows.extend(quantiles(SERVICE, &second.service, &so_far.service)),
        }
        if let (Some(last), Some(all)) = (&second.late, &so_far.late) {
            rows.extend(quantiles(LATE, last, all).into_iter().skip(2));
        }
        let mut row = Row::new(
            "in flight",
            [
                format!("{} requests", second.in_flight),
                format!("{} connections", second.open),
            ],
        );
        if second.asked_per_s.is_some() {
            row.cells
                .push(format!("{} requests overdue", second.backlog));
        }
        rows.push(row);
        let each_s = |bytes: u64| format!("{}/s", size(bytes as f64 / second.length_s.max(0.001)));
        for (name, last, all) in [
            ("received", second.bytes_received, so_far.bytes_received),
            ("sent", second.bytes_sent, so_far.bytes_sent),
        ] {
            rows.push(Row::new(name, [each_s(last), size(all as f64)]));
        }
        let status = so_far.status.iter();
        let status: Vec<_> = status
            .map(|(code, count)| format!("{code}: {count} responses"))
            .collect();
        rows.extend(Row::several("status", status));
        let failures = so_far.failures.iter();
        let failures: Vec<_> = failures
            .map(|(kind, count)| format!("{kind}: {count} requests"))
            .collect();
        rows.extend(Row::several("failures", failures).map(Row::red));
        rows
    }
}

const SERVICE: [&str; 4] = ["service p50", "service p90", "service p99", "service max"];
const RESPONSE: [&str; 4] = [
    "response p50",
    "response p90",
    "response p99",
    "response max",
];
const MESSAGE: [&str; 4] = ["message p50", "message p90", "message p99", "message max"];
const LATE: [&str; 4] = ["late p50", "late p90", "late p99", "late max"];

/// A row for each quantile, of the last second and of all.
fn quantiles(names: [&'static str; 4], last: &Quantiles, all: &Quantiles) -> Vec<Row> {
    let values = |of: &Quantiles| [of.p50, of.p90, of.p99, of.max];
    let pairs = values(last).into_iter().zip(values(all));
    names
        .into_iter()
        .zip(pairs)
        .map(|(name, (last, all))| Row::new(name, [time(last), time(all)]))
        .collect()
}

/// The messages of streams: how many there are in a second, and how long they take.
fn messages(last: &MessagesOut, all: &MessagesOut) -> Vec<Row> {
    let each_s = |count: f64| format!("{count:.0} messages/s");
    let mut rows = vec![
        Row::new(
            "messages in",
            [each_s(last.received_per_s), each_s(all.received_per_s)],
        ),
        Row::new(
            "messages out",
            [each_s(last.sent_per_s), each_s(all.sent_per_s)],
        ),
    ];
    if let (Some(last), Some(all)) = (&last.latency, &all.latency) {
        rows.extend(quantiles(MESSAGE, last, all));
    }
    rows
}

/// A length of time in whole seconds, those that have begun included.
fn length(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    match seconds {
        ..100 => format!("{seconds} s"),
        100..6000 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

impl Row {
    fn new(name: &'static str, cells: [String; 2]) -> Self {
        Self {
            name,
            cells: cells.into(),
            style: Style::new(),
        }
    }

    /// A row for what there are any number of; none where there is nothing.
    fn several(name: &'static str, cells: Vec<String>) -> Option<Self> {
        (!cells.is_empty()).then(|| Self {
            name,
            cells,
            style: Style::new(),
        })
    }

    fn red(self) -> Self {
        let style = Style::new().fg(Color::Red);
        Self { style, ..self }
    }

    fn dim(self) -> Self {
        let style = Style::new().dim();
        Self { style, ..self }
    }

    /// The cells that have room as a whole: half a number is another one.
    fn line(&self, width: u16) -> Line<'static> {
        let width = usize::from(width);
        let mut text = format!("{:NAME$}", self.name);
        let mut end = NAME;
        for cell in &self.cells {
            let columns = cell.chars().count();
            if end + columns > width {
                break;
            }
            text.push_str(&format!("{cell:CELL$}"));
            end += columns.max(CELL);
        }
        Line::styled(text, self.style)
    }
}
