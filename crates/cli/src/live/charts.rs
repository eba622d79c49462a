//! The course of a run over time.

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType};
use trilane_engine::SecondOut;

use crate::report::seconds;

/// The least columns and lines in which a chart says something.
const WIDTH: u16 = 40;
const HEIGHT: u16 = 8;

/// A line of a chart: what it is, its colour, and its points.
struct Curve {
    name: &'static str,
    color: Color,
    points: Vec<(f64, f64)>,
}

/// A chart: its title, what stands at its y axis, its curves, and how a value is written.
struct Drawing {
    title: &'static str,
    y: &'static str,
    curves: Vec<Curve>,
    write: fn(f64) -> String,
}

/// Draws as many charts as there is room for, the rate first.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, course: &VecDeque<SecondOut>) {
    let mut drawings = vec![rate(course), latency(course)];
    drawings.extend(late(course));
    let across = (area.width / WIDTH).min(drawings.len() as u16);
    if across == 0 || area.height < HEIGHT {
        return;
    }
    let down = (area.height / HEIGHT).min((drawings.len() as u16).div_ceil(across));
    let lines = Layout::vertical(vec![Constraint::Fill(1); down.into()]).split(area);
    let mut left = drawings.iter();
    for line in lines.iter() {
        let here = (across as usize).min(left.len());
        let places = Layout::horizontal(vec![Constraint::Fill(1); here]).split(*line);
        for (drawing, place) in left.by_ref().take(here).zip(places.iter()) {
            drawing.draw(frame, *place, course);
        }
    }
}

/// The points of a value that a second may have, each at the end of its second.
fn points(
    course: &VecDeque<SecondOut>,
    value: impl Fn(&SecondOut) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let seconds = course.iter();
    seconds
        .filter_map(|second| Some((second.start_s + second.length_s, value(second)?)))
        .collect()
}

fn rate(course: &VecDeque<SecondOut>) -> Drawing {
    let failed = |second: &SecondOut| second.failed as f64 / second.length_s.max(0.001);
    let mut curves = vec![Curve {
        name: "ok",
        color: Color::Green,
        points: points(course, |second| Some(second.requests_per_s)),
    }];
    if course.iter().any(|second| second.failed > 0) {
        curves.push(Curve {
            name: "failed",
            color: Color::Red,
            points: points(course, |second| Some(failed(second))),
        });
    }
    let asked = points(course, |second| second.asked_per_s);
    if !asked.is_empty() {
        curves.push(Curve {
            name: "asked for",
            color: Color::Gray,
            points: asked,
        });
    }
    Drawing {
        title: "rate over time",
        y: "requests/s",
        curves,
        write: short,
    }
}

fn latency(course: &VecDeque<SecondOut>) -> Drawing {
    let is_due = course.iter().any(|second| second.response.is_some());
    let of = |second: &SecondOut| second.response.clone().unwrap_or(second.service.clone());
    Drawing {
        title: if is_due {
            "response time over time"
        } else {
            "service time over time"
        },
        y: "latency",
        curves: vec![
            Curve {
                name: "p50",
                color: Color::Cyan,
                points: points(course, |second| of(second).p50),
            },
            Curve {
                name: "p99",
                color: Color::Yellow,
                points: points(course, |second| of(second).p99),
            },
        ],
        write: seconds,
    }
}

/// How late requests left, where they are due at a time.
fn late(course: &VecDeque<SecondOut>) -> Option<Drawing> {
    let late = |second: &SecondOut| second.late.as_ref().and_then(|late| late.max);
    let is_due = course.iter().any(|second| second.late.is_some());
    is_due.then(|| Drawing {
        title: "lateness over time",
        y: "late",
        curves: vec![Curve {
            name: "max",
            color: Color::Magenta,
            points: points(course, late),
        }],
        write: seconds,
    })
}

/// A rate in as few characters as an axis has room for.
fn short(per_second: f64) -> String {
    match per_second {
        v if v < 1e3 => format!("{v:.0}/s"),
        v if v < 1e6 => format!("{:.1}k/s", v / 1e3),
        v => format!("{:.2}M/s", v / 1e6),
    }
}

impl Drawing {
    fn draw(&self, frame: &mut Frame<'_>, area: Rect, course: &VecDeque<SecondOut>) {
        let values = self.curves.iter().flat_map(|curve| &curve.points);
        // Nothing at all is drawn on the axis, and not in the middle.
        let top = values.map(|point| point.1).fold(0.0, f64::max) * 1.1;
        let top = if top > 0.0 { top } else { 1.0 };
        let first = course.front().map_or(0.0, |second| second.start_s);
        let last = course
            .back()
            .map_or(0.0, |second| second.start_s + second.length_s);
        // The first seconds do not fill the width.
        let end = last.max(first + 10.0);
        let middle = (first + end) / 2.0;
        let dim = Style::new().dim();
        let datasets = self.curves.iter().map(|curve| {
            Dataset::default()
                .name(curve.name)
                .marker(Marker::Braille)
                .graph_type(GraphType::Line)
                .style(Style::new().fg(curve.color))
                .data(&curve.points)
        });
        let x = Axis::default()
            .title("time")
            .style(dim)
            .bounds([first, end])
            .labels([first, middle, end].map(|at| format!("{at:.0} s")));
        let y = Axis::default()
            .title(self.y)
            .style(dim)
            .bounds([0.0, top])
            .labels([0.0, top / 2.0, top].map(self.write));
        let chart = Chart::new(datasets.collect())
            .block(Block::bordered().title(self.title).border_style(dim))
            .hidden_legend_constraints((Constraint::Ratio(1, 2), Constraint::Ratio(2, 3)))
            .x_axis(x)
            .y_axis(y);
        frame.render_widget(chart, area);
    }
}
