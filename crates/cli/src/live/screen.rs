//! The terminal while it is ours, and as it was before.

use std::io::{self, BufWriter, Stderr, stderr};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};

use super::view::View;

/// Whether the terminal is ours.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// A screen of its own on the terminal, without a cursor, whose keys come as they are pressed. The
/// terminal is as it was before when this is dropped, and when any thread panics: a release build would
/// end at once.
pub(super) struct Screen(Terminal<CrosstermBackend<BufWriter<Stderr>>>);

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        give_back_on_panic();
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        let entered = execute!(stderr(), EnterAlternateScreen, cursor::Hide);
        entered
            .and_then(|()| Terminal::new(CrosstermBackend::new(BufWriter::new(stderr()))))
            .map(Self)
            .inspect_err(|_| give_back())
    }

    /// Draws the view; an error where the terminal is gone, or is no longer ours.
    pub(super) fn draw(&mut self, view: &View) -> io::Result<()> {
        if !TAKEN.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        self.0.draw(|frame| view.draw(frame)).map(|_| ())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // Where the terminal is gone there is nothing to give back.
        let _ = execute!(stderr(), LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
    }
}

/// Has whatever a panic prints come on the terminal as it was before.
fn give_back_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |told| {
            give_back();
            before(told);
        }));
    });
}
