//! HTTP/1.1 and HTTP/2 over TCP, by hyper.

mod content;
mod early;
mod socket;
#[cfg(test)]
mod tests;

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper::{
    Request, Response, Version,
    body::Incoming,
    header::{CONNECTION, HeaderValue},
    server::conn::{http1, http2},
    service::Service,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time,
};

use self::content::Content;
pub(crate) use self::early::EarlyTls;
use self::socket::{End, Socket};
use crate::{
    app::{Answer, App, BoxError, Reply, handle},
    connection::{ABSENCE, Connection, MAX_HEAD, PATIENCE},
    tls::{CONNECTION_WINDOW, STREAM_WINDOW},
    worker::Signal,
};

/// How long a peer may take to close its direction after we have closed ours.
const LINGER: Duration = Duration::from_secs(2);

/// How to read a connection: decided by ALPN, or by the first bytes in cleartext.
#[derive(Clone)]
pub(crate) struct Builders(Arc<Each>);

struct Each {
    auto: auto::Builder<TokioExecutor>,
    h1: http1::Builder,
    h2: http2::Builder<TokioExecutor>,
}

/// A connection that is being served.
trait Serving: Future {
    /// Has it end behind the requests that have come.
    fn leave(self: Pin<&mut Self>);
}

type Io<I> = TokioIo<Socket<I>>;

impl<I: Stream> Serving for auto::UpgradeableConnection<'_, Io<I>, Handler, TokioExecutor> {
    fn leave(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I: Stream> Serving for http1::UpgradeableConnection<Io<I>, Handler> {
    fn leave(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I: Stream> Serving for http2::Connection<Io<I>, Handler, TokioExecutor> {
    fn leave(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// What a connection may be over.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<I: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for I {}

impl Builders {
    pub(crate) fn new(streams: u32) -> Self {
        let (mut h1, mut h2) = (
            http1::Builder::new(),
            http2::Builder::new(TokioExecutor::new()),
        );
        let mut auto = auto::Builder::new(TokioExecutor::new());
        // Both of `auto` are as those alone. The types have nothing in common.
        macro_rules! configure {
            ($h1:expr, $h2:expr) => {
                $h1.timer(TokioTimer::new())
                    // `PATIENCE` does the same for all versions without a timer per request.
                    .header_read_timeout(None)
                    .half_close(true)
                    .max_buf_size(MAX_HEAD as usize);
                $h2.timer(TokioTimer::new())
                    .initial_stream_window_size(STREAM_WINDOW)
                    .initial_connection_window_size(CONNECTION_WINDOW)
                    .max_concurrent_streams(streams)
                    .max_header_list_size(MAX_HEAD)
                    .enable_connect_protocol();
            };
        }
        configure!(h1, h2);
        configure!(auto.http1(), auto.http2());
        Self(Arc::new(Each { auto, h1, h2 }))
    }
}

/// Serves one connection until the peer leaves, loses our patience, or all have to leave.
pub(crate) async fn serve<I: Stream>(
    io: I,
    connection: Arc<Connection>,
    app: Arc<App>,
    builders: Builders,
    signal: watch::Receiver<Signal>,
) {
    let socket = Socket::new(io, connection.clone());
    let handler = Handler {
        app,
        connection: connection.clone(),
    };
    let io = TokioIo::new(socket.clone());
    let Each { auto, h1, h2 } = &*builders.0;
    // RFC 9113 section 3.3: over TLS it is HTTP/2 if ALPN says so, and not otherwise.
    match connection.tls.as_ref().map(|tls| tls.alpn.as_deref()) {
        None => {
            let serving = auto.serve_connection_with_upgrades(io, handler);
            keep(serving, socket, connection, signal).await;
        }
        Some(Some("h2")) => {
            let serving = h2.serve_connection(io, handler);
            keep(serving, socket, connection, signal).await;
        }
        Some(_) => {
            let serving = h1.serve_connection(io, handler).with_upgrades();
            keep(serving, socket, connection, signal).await;
        }
    }
}

async fn keep<I: Stream>(
    serving: impl Serving,
    socket: Socket<I>,
    connection: Arc<Connection>,
    signal: watch::Receiver<Signal>,
) {
    let mut serving = pin!(serving);
    let mut told = signal.clone();
    let mut leave = pin!(told.changed());
    let mut left = signal.clone();
    let mut patience = pin!(time::sleep(PATIENCE));
    let mut progress = connection.progress();
    let mut registered = false;
    let mut leaving = false;
    let mut watch = Watch::default();
    // By hand, not by `select!`: this runs once per request, and polling the two futures that
    // hardly ever fire costs more than looking whether they have.
    let is_through = poll_fn(|cx| {
        if serving.as_mut().poll(cx).is_ready() {
            return Poll::Ready(true);
        }
        if !registered {
            registered = true;
            let _ = leave.as_mut().poll(cx);
            let _ = patience.as_mut().poll(cx);
        }
        if !leaving && (connection.is_spent() || signal.has_changed().unwrap_or(true)) {
            leaving = true;
            // hyper would wait for the first request of a connection that never had one.
            if !connection.has_served() {
                return Poll::Ready(false);
            }
            serving.as_mut().leave();
            if serving.as_mut().poll(cx).is_ready() {
                return Poll::Ready(true);
            }
        }
        if let Poll::Ready(Err(_)) = socket.poll_send(cx) {
            return Poll::Ready(false);
        }
        if watch.poll_gone(cx, &socket, &connection).is_ready() {
            return Poll::Ready(false);
        }
        if patience.is_elapsed() {
            if progress == connection.progress() && !connection.is_waiting() {
                return Poll::Ready(false);
            }
            progress = connection.progress();
            patience.as_mut().reset(time::Instant::now() + PATIENCE);
            let _ = patience.as_mut().poll(cx);
        }
        Poll::Pending
    })
    .await;

    socket.stop_gathering();
    if is_through && !connection.has_switched() {
        tokio::select! {
            _ = time::timeout(LINGER, socket.close()) => {}
            _ = left.changed() => {}
        }
    }
}

/// Looks for a peer of HTTP/1 that leaves while it waits: hyper does not read then, and what is done for a peer that
/// has left would go on until something is sent to it.
#[derive(Default)]
struct Watch {
    /// What was seen of it, when it is given up for that, and how far the connection had got before.
    absence: Option<(End, Pin<Box<time::Sleep>>, u64)>,
}

impl Watch {
    fn poll_gone<I>(
        &mut self,
        cx: &mut Context<'_>,
        socket: &Socket<I>,
        connection: &Connection,
    ) -> Poll<()>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        if !connection.is_unwatched() {
            self.absence = None;
            return Poll::Pending;
        }
        let Ok(end) = ready!(socket.poll_end(cx)) else {
            return Poll::Ready(());
        };
        let patience = match end {
            End::Ended => ABSENCE,
            End::Unseen => PATIENCE,
        };
        self.absence.take_if(|(seen, ..)| *seen != end);
        loop {
            let progress = connection.progress();
            let begin = || (end, Box::pin(time::sleep(patience)), progress);
            let (_, absence, before) = self.absence.get_or_insert_with(begin);
            ready!(absence.as_mut().poll(cx));
            if *before == progress {
                return Poll::Ready(());
            }
            // Something has been sent, and was not answered by a reset: it reads on.
            self.absence = None;
        }
    }
}

struct Handler {
    app: Arc<App>,
    connection: Arc<Connection>,
}

impl Service<Request<Incoming>> for Handler {
    type Response = Response<Reply<Content>>;
    type Error = BoxError;
    type Future = Answer<Content>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let last = self.connection.count_request();
        let is_serial = request.version() < Version::HTTP_2;
        if is_serial {
            self.connection.serve_in_turn();
        }
        let reading = || is_serial.then(|| self.connection.read());
        let request = request.map(|content| Content::new(content, reading));
        let close = last && is_serial;
        let mut answer = handle(&self.app, &self.connection, request);
        if answer.is_switch() {
            self.connection.switch();
        } else if close {
            // RFC 9112 section 9.6. Over HTTP/2 the keeper of the connection sends GOAWAY.
            answer.add_field(CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }
}
