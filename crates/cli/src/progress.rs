//! The live display of a run, on stderr and only on a terminal.

use std::io::{IsTerminal as _, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use trilane_engine::{Control, Plan};

/// A display that lives as long as a run.
pub(crate) struct Display(Option<(Arc<AtomicBool>, JoinHandle<()>)>);

impl Display {
    /// Shows `control`'s counts until [`Self::finish`]; nothing where stderr is no terminal.
    pub(crate) fn start(control: &Arc<Control>, plan: &Plan) -> Self {
        if !stderr().is_terminal() {
            return Self(None);
        }
        let (expected, requests) = (plan.expected(), plan.requests());
        let control = Arc::clone(control);
        let done = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&done);
        let thread = thread::spawn(move || {
            let bar = bar(expected, requests);
            let began = Instant::now();
            let mut last = (began, 0);
            while !stop.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(100));
                let counts = control.progress();
                let now = Instant::now();
                let ended = counts.ok + counts.failed;
                match (expected, requests) {
                    (None, Some(_)) => bar.set_position(ended),
                    _ => bar.set_position(began.elapsed().as_millis() as u64),
                }
                if now.duration_since(last.0) >= Duration::from_millis(500) {
                    let rate = (ended - last.1) as f64 / now.duration_since(last.0).as_secs_f64();
                    last = (now, ended);
                    bar.set_message(match counts.connected {
                        false => "connecting".to_owned(),
                        true => format!(
                            "{rate:.0} requests/s, {} ok, {} failed",
                            counts.ok, counts.failed
                        ),
                    });
                }
            }
            bar.finish_and_clear();
        });
        Self(Some((done, thread)))
    }

    /// Clears the display.
    pub(crate) fn finish(self) {
        if let Some((done, thread)) = self.0 {
            done.store(true, Ordering::Relaxed);
            // A display that panicked is no reason to lose the result.
            let _ = thread.join();
        }
    }
}

fn bar(expected: Option<Duration>, requests: Option<u64>) -> ProgressBar {
    let (length, template) = match (expected, requests) {
        (None, Some(requests)) => (requests, "{bar:30} {pos}/{len} requests  {msg}  {eta} left"),
        (expected, _) => {
            let length = expected.unwrap_or_default().as_millis() as u64;
            (length, "{bar:30} {percent}%  {msg}  {eta} left")
        }
    };
    let style = ProgressStyle::with_template(template);
    ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
