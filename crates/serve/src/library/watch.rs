//! The stream behind `WatchBooks`.

use std::{sync::Arc, time::Duration, vec};

use tokio::{
    sync::{broadcast::error::RecvError, watch},
    time::{sleep, timeout},
};
use tonic::Status;

use super::{
    proto::{Book, WatchBooksRequest, WatchBooksResponse, watch_books_response::Change},
    store::{Changes, Library},
};
use crate::worker::Signal;

/// Longest pause that may be asked for.
const MAX_INTERVAL: Duration = Duration::from_secs(3600);
/// A follower of a shelf where nothing happens is sent away after this long, lest those that left
/// without a word stay for ever.
const SILENCE: Duration = Duration::from_secs(600);

/// One watcher's state between two messages.
pub(super) struct Watch {
    library: Arc<Library>,
    parent: String,
    books: vec::IntoIter<Arc<Book>>,
    changes: Option<Changes>,
    /// Messages to go; `None` without a limit.
    left: Option<usize>,
    interval: Duration,
    begun: bool,
    stop: watch::Receiver<Signal>,
}

impl Watch {
    pub(super) fn new(
        library: Arc<Library>,
        request: WatchBooksRequest,
        stop: watch::Receiver<Signal>,
    ) -> Result<Self, Status> {
        let count = usize::try_from(request.count).map_err(|_| {
            Status::invalid_argument(format!("count is {}: give 0 or more", request.count))
        })?;
        let left = (count > 0).then_some(count);
        let interval = match request.interval {
            Some(interval) => Duration::try_from(interval)
                .ok()
                .filter(|interval| *interval <= MAX_INTERVAL)
                .ok_or_else(|| {
                    Status::invalid_argument(format!(
                        "interval is {} s and {} ns: give 0 to {} s",
                        interval.seconds,
                        interval.nanos,
                        MAX_INTERVAL.as_secs()
                    ))
                })?,
            None => Duration::ZERO,
        };
        let (books, changes) = match request.follow {
            true => {
                let (books, changes) = library.follow(&request.parent)?;
                (books, Some(changes))
            }
            false => (
                library.look(&request.parent, left.unwrap_or(usize::MAX))?,
                None,
            ),
        };
        Ok(Self {
            library,
            parent: request.parent,
            books: books.into_iter(),
            changes,
            left,
            interval,
            begun: false,
            stop,
        })
    }

    /// The next message with the state after it; `None` at the end.
    pub(super) async fn next(mut self) -> Result<Option<(WatchBooksResponse, Self)>, Status> {
        match &mut self.left {
            Some(0) => return Ok(None),
            Some(left) => *left -= 1,
            None => {}
        }
        if self.begun && !self.interval.is_zero() {
            tokio::select! {
                () = sleep(self.interval) => {}
                stopping = stopping(&mut self.stop) => return Err(stopping),
            }
        }
        self.begun = true;
        if let Some(book) = self.books.next() {
            return Ok(Some((present(&book), self)));
        }
        if let Some(changes) = &mut self.changes {
            let change = tokio::select! {
                change = timeout(SILENCE, changes.recv()) => change,
                stopping = stopping(&mut self.stop) => return Err(stopping),
            };
            return match change {
                Ok(Ok(change)) => Ok(Some((WatchBooksResponse::clone(&change), self))),
                Ok(Err(RecvError::Lagged(missed))) => Err(Status::resource_exhausted(format!(
                    "this follower was too slow, and {missed} changes are lost: watch again"
                ))),
                // The library, which sends them, lives as long as `self`.
                Ok(Err(RecvError::Closed)) => Ok(None),
                Err(_) => Err(Status::unavailable(format!(
                    "nothing changed for {} s: watch again",
                    SILENCE.as_secs()
                ))),
            };
        }
        let Some(left) = self.left else {
            return Ok(None);
        };
        // Anew, with the first. Such a stream need not wait for anything, so it looks here.
        if matches!(*self.stop.borrow(), Signal::Leave(_)) {
            return Err(leaving());
        }
        self.books = self.library.look(&self.parent, left + 1)?.into_iter();
        Ok(self.books.next().map(|book| (present(&book), self)))
    }
}

fn present(book: &Book) -> WatchBooksResponse {
    WatchBooksResponse {
        book: Some(book.clone()),
        change: Change::Present.into(),
    }
}

/// What to tell a caller when the server stops; waits until it does.
pub(super) async fn stopping(stop: &mut watch::Receiver<Signal>) -> Status {
    // The sender is the server, which tells before it goes.
    let _ = stop
        .wait_for(|signal| matches!(signal, Signal::Leave(_)))
        .await;
    leaving()
}

fn leaving() -> Status {
    Status::unavailable("the server is stopping")
}
