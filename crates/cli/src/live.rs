//! `--live`: the run on the whole terminal, while it lasts. It is drawn on stderr, so that the result on
//! stdout is what it is without.

mod charts;
mod screen;
#[cfg(test)]
mod tests;
mod view;

use std::io::{IsTerminal as _, stderr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use trilane_engine::{Control, Plan, SecondOut};

use self::screen::Screen;
use self::view::View;

/// How long after a drawing the next one is made, where no key comes before.
const REDRAWN: Duration = Duration::from_millis(100);

/// A second, and all that had been measured at its end.
type Told = (SecondOut, SecondOut);

/// A view that lives as long as a run.
pub(crate) struct Live {
    seconds: Sender<Told>,
    thread: JoinHandle<()>,
}

/// Why nothing can be drawn here, with what to type instead.
pub(crate) fn unusable() -> Option<String> {
    if !stderr().is_terminal() {
        let why = "--live draws on stderr, which is no terminal here: leave it out, or run it in a terminal \
                   without 2>; --ndjson FILE writes the same numbers";
        return Some(why.to_owned());
    }
    let dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
    dumb.then(|| {
        "--live cannot draw on this terminal, whose name is dumb (TERM): leave it out, or set TERM, such as \
         TERM=xterm-256color"
            .to_owned()
    })
}

impl Live {
    /// Takes the terminal, and shows `control`'s counts and what [`Self::update`] is told until
    /// [`Self::finish`]. `q`, Esc and Ctrl-C end the run.
    pub(crate) fn start(control: &Arc<Control>, plan: &Plan) -> Result<Self, String> {
        let cannot = |error| {
            format!(
                "--live cannot use this terminal: {error}: leave it out, or run it in a terminal"
            )
        };
        let screen = Screen::open().map_err(cannot)?;
        let (seconds, told) = channel();
        let (control, view) = (Arc::clone(control), View::new(plan));
        let thread = thread::Builder::new()
            .name("live".into())
            .spawn(move || show(screen, &told, &control, view))
            .map_err(cannot)?;
        Ok(Self { seconds, thread })
    }

    /// A second is over.
    pub(crate) fn update(&self, second: &SecondOut, so_far: &SecondOut) {
        // A view that has ended early, as its terminal went away, is no reason to end the run.
        let _ = self.seconds.send((second.clone(), so_far.clone()));
    }

    /// Gives the terminal back.
    pub(crate) fn finish(self) {
        drop(self.seconds);
        // A view that panicked has given it back, and is no reason to lose the result.
        let _ = self.thread.join();
    }
}

/// Draws until nobody tells anything any more, or the terminal is gone.
fn show(mut screen: Screen, told: &Receiver<Told>, control: &Control, mut view: View) {
    let mut begun = None;
    loop {
        loop {
            match told.try_recv() {
                Ok((second, so_far)) => view.add(second, so_far),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        view.progress = control.progress();
        if view.progress.connected {
            view.elapsed = Some(begun.get_or_insert_with(Instant::now).elapsed());
        }
        view.ending |= control.was_interrupted();
        if screen.draw(&view).is_err() {
            return;
        }
        match is_end_asked() {
            Ok(true) => control.interrupt(),
            Ok(false) => (),
            Err(_) => return,
        }
    }
}

/// Waits for keys until the next drawing, and says whether one of them ends the run.
fn is_end_asked() -> std::io::Result<bool> {
    let mut patience = REDRAWN;
    while event::poll(patience)? {
        if let Event::Key(key) = event::read()?
            && ends(key)
        {
            return Ok(true);
        }
        // What else has come, such as another size, is drawn at once.
        patience = Duration::ZERO;
    }
    Ok(false)
}

/// Whether a key ends the run: the terminal makes no signal of Ctrl-C while it is ours.
fn ends(key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press
        && match key.code {
            KeyCode::Esc => true,
            KeyCode::Char('c') => control,
            KeyCode::Char('q' | 'Q') => !control,
            _ => false,
        }
}
