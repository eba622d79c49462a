//! Signals that end a run, with its report.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use trilane_engine::Control;
use trilane_serve::Signals;

use crate::complain;

/// The run that SIGINT, SIGTERM and SIGHUP end, and whether one of them has come.
#[derive(Debug, Default)]
pub(crate) struct Interrupt {
    current: Mutex<Arc<Control>>,
    came: AtomicBool,
}

impl Interrupt {
    /// From now on the signals are caught.
    pub(crate) fn catch() -> Arc<Self> {
        let interrupt = Arc::new(Self::default());
        let ended = Arc::clone(&interrupt);
        if let Err(error) = Signals::catch_but_interrupt()
            .and_then(|signals| signals.tell_each(move || ended.interrupt()))
        {
            complain(format!(
                "SIGTERM and SIGHUP will end the command without a report: {error}"
            ));
        }
        // A second handler in one process cannot be set: then the first one's owner is interrupted.
        let handler = Arc::clone(&interrupt);
        if let Err(error) = ctrlc::set_handler(move || handler.interrupt()) {
            complain(format!(
                "Ctrl-C will end the command without a report: {error}"
            ));
        }
        interrupt
    }

    /// The strings of the next run; where a signal has come, it ends at once.
    pub(crate) fn next(&self) -> Arc<Control> {
        let control = Arc::new(Control::new());
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::clone(&control);
        if self.came.load(Ordering::SeqCst) {
            control.interrupt();
        }
        control
    }

    fn interrupt(&self) {
        self.came.store(true, Ordering::SeqCst);
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.interrupt();
    }
}
