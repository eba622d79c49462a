//! HTTP/3 over QUIC, by h3 and quinn.

mod body;
mod guard;
mod proof;
mod quic;
mod section;

use std::{
    cell::RefCell,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::{Buf, Bytes};
use h3::{
    error::{Code, StreamError},
    quic::SendStream as _,
    server::{RequestResolver, RequestStream},
};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header::DATE};
use hyper::body::{Body as _, Frame};
use quinn::crypto::rustls::HandshakeData;
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};

pub(crate) use self::proof::{Proof, Socket};

use self::body::Body;
use crate::{
    app::{Answer, App, BoxError, Reply, handle},
    connection::{Connection, HANDSHAKE_TIMEOUT, MAX_HEAD, PATIENCE, Tls},
    rpc::Call,
    worker::Signal,
};

type Resolver = RequestResolver<quic::Connection, Bytes>;
type Stream = RequestStream<quic::BidiStream, Bytes>;

/// Longest wait for the peer to take what has been written, once all requests are answered.
const LINGER: Duration = Duration::from_secs(5);
/// How often to look whether the peer still wants a response that has nothing to send.
const PULSE: Duration = Duration::from_secs(5);
/// A connection that sent nothing for this long has nothing left to send.
const QUIET: Duration = Duration::from_millis(100);

/// Serves one QUIC connection until the peer leaves or has to.
pub(crate) async fn serve(
    incoming: quinn::Incoming,
    mut proof: Proof,
    app: Arc<App>,
    limit: Option<u64>,
    early_data: bool,
    mut signal: watch::Receiver<Signal>,
    _alive: mpsc::Sender<()>,
) {
    let Ok(connecting) = incoming.accept() else {
        return;
    };
    let shaken = timeout(HANDSHAKE_TIMEOUT, shake_hands(connecting, early_data)).await;
    let Ok(Ok((quic, rest))) = shaken else {
        return;
    };
    if rest.is_none() {
        proof.prove();
    }
    let handshaking = Arc::new(AtomicBool::new(rest.is_some()));
    let Some(caller) = app.count_quic(quic.remote_address()) else {
        let code = Code::H3_EXCESSIVE_LOAD.value() as u32;
        quic.close(code.into(), b"too many connections of one address");
        return;
    };
    let connection = Connection::new(
        caller,
        Some(describe(&quic)),
        limit,
        early_data.then(|| handshaking.clone()),
    );
    let mut handshake = pin!(async {
        match rest {
            Some(rest) => timeout(HANDSHAKE_TIMEOUT, rest).await.is_ok(),
            None => true,
        }
    });
    let mut builder = h3::server::builder();
    builder.max_field_section_size(u64::from(MAX_HEAD));
    let Ok(mut h3) = builder.build(quic::Connection::new(quic.clone())).await else {
        return;
    };
    let shared = Arc::new(Shared {
        app,
        connection: connection.clone(),
    });
    // Each request holds a sender; ours is given up when no more requests are taken.
    let (busy, mut idle) = mpsc::channel::<()>(1);
    let mut open = Some(busy);
    loop {
        tokio::select! {
            biased;
            // Before the requests: those that come behind it are no replays.
            in_time = &mut handshake, if handshaking.load(Relaxed) => {
                handshaking.store(false, Relaxed);
                if !in_time {
                    return;
                }
                proof.prove();
            }
            // Polling requests is most of what this loop does.
            accepted = h3.accept() => match (accepted, &open) {
                (Ok(Some(resolver)), Some(busy)) => {
                    connection.count_request();
                    let exchange = Exchange {
                        shared: shared.clone(),
                        _busy: busy.clone(),
                    };
                    at_once(|cx| exchange.start(cx, resolver)).await;
                }
                // RFC 9114 section 5.2: it raced with our GOAWAY, whose id was not above it.
                (Ok(Some(mut resolver)), None) => {
                    resolver.frame_stream.reset(Code::H3_REQUEST_REJECTED.value());
                    continue;
                }
                (Ok(None), _) => break,
                (Err(_), _) => return,
            },
            _ = signal.changed(), if open.is_some() => {
                open = None;
                if h3.shutdown(1).await.is_err() {
                    return;
                }
            }
            _ = idle.recv(), if open.is_none() => break,
        }
        if open.is_some() && connection.is_spent() {
            open = None;
            // The id in the GOAWAY is the first that is not taken: one after the last accepted.
            if h3.shutdown(1).await.is_err() {
                return;
            }
        }
    }
    // Closing throws away what the peer has not got yet, so wait until nothing moves.
    let _ = timeout(LINGER, async {
        let mut sent = u64::MAX;
        while quic.close_reason().is_none() && sent != quic.stats().frame_tx.stream {
            sent = quic.stats().frame_tx.stream;
            sleep(QUIET).await;
        }
    })
    .await;
}

/// Shakes hands to the end or, with early data, as far as is needed to serve it: then the second says
/// when the end has come.
async fn shake_hands(
    mut connecting: quinn::Connecting,
    early_data: bool,
) -> Result<(quinn::Connection, Option<quinn::ZeroRttAccepted>), quinn::ConnectionError> {
    if early_data {
        connecting.handshake_data().await?;
        // A server can always send before it has the client's Finished.
        match connecting.into_0rtt() {
            Ok((quic, rest)) => return Ok((quic, Some(rest))),
            Err(same) => connecting = same,
        }
    }
    Ok((connecting.await?, None))
}

/// The server's side of one request, as far as it got without waiting.
struct Exchange {
    shared: Arc<Shared>,
    /// Held until the response is written.
    _busy: mpsc::Sender<()>,
}

/// What the requests of one connection share.
struct Shared {
    app: Arc<App>,
    connection: Arc<Connection>,
}

/// Nearly every request arrives whole, in one packet, and its answer fits another. Such a one is
/// answered here and now, without a task or a future on the heap; what has to wait for anything
/// goes on in a task.
impl Exchange {
    fn start(self, cx: &mut Context<'_>, mut resolver: Resolver) {
        let Poll::Ready(frame) = resolver.frame_stream.poll_next(cx) else {
            tokio::spawn(async move {
                // On any failure the streams are dropped, which resets them.
                if let Ok(Ok((request, stream))) =
                    timeout(PATIENCE, resolver.resolve_request()).await
                {
                    at_once(|cx| self.read(cx, request, stream)).await;
                }
            });
            return;
        };
        let Ok(head) = resolver.accept_with_frame(frame) else {
            return;
        };
        // Waits only to send a refusal (431) to a peer that takes nothing: not worth waiting for.
        if let Poll::Ready(Ok((request, stream))) = poll_once(cx, head.resolve()) {
            self.read(cx, request, stream);
        }
    }

    fn read(self, cx: &mut Context<'_>, request: Request<()>, mut stream: Stream) {
        let mut arrived = [None, None];
        for place in 0..arrived.len() {
            let piece = stream
                .poll_recv_data(cx)
                .map_ok(|piece| piece.map(|mut piece| piece.copy_to_bytes(piece.remaining())));
            match piece {
                Poll::Ready(Ok(None)) => {
                    let [first, None] = arrived else { break };
                    let body = first.map_or(Body::Ended, Body::Whole);
                    match body::is_as_long_as_declared(&body, request.headers()) {
                        true => self.answer(cx, request.map(|()| body), stream),
                        // RFC 9114 section 4.1.2.
                        false => stream.stop_stream(Code::H3_MESSAGE_ERROR),
                    }
                    return;
                }
                Poll::Ready(Ok(piece)) => arrived[place] = piece,
                Poll::Ready(Err(_)) => return,
                Poll::Pending => break,
            }
        }
        tokio::spawn(async move {
            let length = body::declared_length(request.headers());
            let (mut sender, receiver) = stream.split();
            let request = request.map(|()| Body::new(arrived, length, receiver));
            let answer = self.handle(request);
            if let Some(response) = wanted(&mut sender, answer).await {
                // A peer that went away needs no report.
                let _ = send(&mut sender, response).await;
            }
        });
    }

    fn answer(self, cx: &mut Context<'_>, request: Request<Body>, mut stream: Stream) {
        let mut answer = self.handle(request);
        match Pin::new(&mut answer).poll(cx) {
            Poll::Ready(Ok(response)) => self.send(cx, response, stream),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                tokio::spawn(async move {
                    if let Some(response) = wanted(&mut stream, answer).await {
                        let _ = send(&mut stream, response).await;
                    }
                    drop(self);
                });
            }
        }
    }

    fn send(self, cx: &mut Context<'_>, mut response: Response<Reply<Body>>, mut stream: Stream) {
        let at_hand = match response.body_mut() {
            Reply::Bytes(bytes) if bytes.len() <= quic::SMALL => Ok((bytes.clone(), None)),
            Reply::Call(call) => at_hand(cx, call),
            _ => Err(Vec::new()),
        };
        let (bytes, trailers) = match at_hand {
            Ok(whole) => whole,
            Err(frames) => {
                tokio::spawn(async move {
                    let _ = send_after(&mut stream, response, frames).await;
                    drop(self);
                });
                return;
            }
        };
        let (mut head, _) = response.into_parts();
        head.headers.insert(DATE, date());
        let head = Response::from_parts(head, ());
        // Both are gathered by `quic`, which does not wait before the end.
        let Poll::Ready(Ok(())) = poll_once(cx, stream.send_response(head)) else {
            return;
        };
        if !bytes.is_empty() {
            let Poll::Ready(Ok(())) = poll_once(cx, stream.send_data(bytes)) else {
                return;
            };
        }
        if let Some(trailers) = trailers {
            let Poll::Ready(Ok(())) = poll_once(cx, stream.send_trailers(trailers)) else {
                return;
            };
        }
        if poll_once(cx, stream.finish()).is_pending() {
            tokio::spawn(async move {
                let _ = stream.finish().await;
                drop(self);
            });
        }
    }

    fn handle(&self, request: Request<Body>) -> Answer<Body> {
        handle(&self.shared.app, &self.shared.connection, request)
    }
}

/// Polls a future that is not needed again if it has to wait.
fn poll_once<F: Future>(cx: &mut Context<'_>, future: F) -> Poll<F::Output> {
    pin!(future).poll(cx)
}

/// Runs a function that polls, with the context of the task that awaits it.
async fn at_once(work: impl FnOnce(&mut Context<'_>)) {
    let mut work = Some(work);
    poll_fn(|cx| {
        if let Some(work) = work.take() {
            work(cx);
        }
        Poll::Ready(())
    })
    .await;
}

/// What a service has to say: all of it if that is short and ready, or the frames that are.
fn at_hand(
    cx: &mut Context<'_>,
    call: &mut Call,
) -> Result<(Bytes, Option<HeaderMap>), Vec<Outcome>> {
    let (mut data, mut trailers) = (Bytes::new(), None);
    while !call.is_end_stream() {
        let frame = match Pin::new(&mut *call).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => frame,
            Poll::Ready(None) => break,
            Poll::Ready(Some(Err(error))) => return Err(vec![Err(error)]),
            Poll::Pending => return Err(frames(data, trailers)),
        };
        match frame.into_data() {
            Ok(first) if data.is_empty() && first.len() <= quic::SMALL => data = first,
            Ok(next) => {
                let mut all = frames(data, trailers);
                all.push(Ok(Frame::data(next)));
                return Err(all);
            }
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    // Together with the head they fit the buffer of `quic`: a few short fields.
    match trailers.as_ref().is_none_or(is_short) {
        true => Ok((data, trailers)),
        false => Err(frames(data, trailers)),
    }
}

type Outcome = Result<Frame<Bytes>, BoxError>;

fn frames(data: Bytes, trailers: Option<HeaderMap>) -> Vec<Outcome> {
    let data = (!data.is_empty()).then(|| Ok(Frame::data(data)));
    data.into_iter()
        .chain(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
        .collect()
}

fn is_short(trailers: &HeaderMap) -> bool {
    let length = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    trailers.iter().map(length).sum::<usize>() <= 200
}

/// The response, when it has come; none where it fails, or the peer does not want it any more.
async fn wanted<S>(
    stream: &mut RequestStream<S, Bytes>,
    mut answer: Answer<Body>,
) -> Option<Response<Reply<Body>>>
where
    S: h3::quic::SendStream<Bytes>,
{
    loop {
        match timeout(PULSE, &mut answer).await {
            Ok(outcome) => return outcome.ok(),
            // Looks whether it does.
            Err(_) => stream.send_data(quic::FLUSH).await.ok()?,
        }
    }
}

/// Sends a response. A small one leaves as one write, so as one STREAM frame.
async fn send<S>(
    stream: &mut RequestStream<S, Bytes>,
    response: Response<Reply<Body>>,
) -> Result<(), StreamError>
where
    S: h3::quic::SendStream<Bytes>,
{
    send_after(stream, response, Vec::new()).await
}

/// Sends a response some of whose frames have been taken from its body already.
async fn send_after<S>(
    stream: &mut RequestStream<S, Bytes>,
    response: Response<Reply<Body>>,
    taken: Vec<Outcome>,
) -> Result<(), StreamError>
where
    S: h3::quic::SendStream<Bytes>,
{
    let (mut head, mut body) = response.into_parts();
    head.headers.insert(DATE, date());
    stream.send_response(Response::from_parts(head, ())).await?;
    let mut taken = taken.into_iter();
    loop {
        let frame = match taken.next() {
            Some(frame) => Some(frame),
            None => next_frame(stream, &mut body).await?,
        };
        match frame.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(data))) if data.is_empty() => {}
            Some(Ok(Ok(data))) => stream.send_data(data).await?,
            Some(Ok(Err(frame))) => {
                if let Ok(trailers) = frame.into_trailers() {
                    stream.send_trailers(trailers).await?;
                }
            }
            Some(Err(_)) => {
                stream.stop_stream(Code::H3_INTERNAL_ERROR);
                return Ok(());
            }
            None => return stream.finish().await,
        }
    }
}

/// The body's next frame; before waiting for it, sends what is there.
async fn next_frame<S>(
    stream: &mut RequestStream<S, Bytes>,
    body: &mut Reply<Body>,
) -> Result<Option<Outcome>, StreamError>
where
    S: h3::quic::SendStream<Bytes>,
{
    let ready = poll_fn(|cx| Poll::Ready(Pin::new(&mut *body).poll_frame(cx)));
    if let Poll::Ready(frame) = ready.await {
        return Ok(frame);
    }
    loop {
        stream.send_data(quic::FLUSH).await?;
        let next = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
        if let Ok(frame) = timeout(PULSE, next).await {
            return Ok(frame);
        }
    }
}

fn describe(quic: &quinn::Connection) -> Tls {
    let data = quic
        .handshake_data()
        .and_then(|data| data.downcast::<HandshakeData>().ok());
    let (protocol, server_name) =
        data.map_or((None, None), |data| (data.protocol, data.server_name));
    Tls {
        // RFC 9001 section 4.2: QUIC has no other.
        version: "TLSv1.3",
        cipher: None,
        alpn: protocol.map(|name| String::from_utf8_lossy(&name).into_owned()),
        server_name,
    }
}

/// The `date` field's value, made once a second. hyper does the same for the other versions.
fn date() -> HeaderValue {
    thread_local! {
        static CACHED: RefCell<(u64, HeaderValue)> =
            const { RefCell::new((0, HeaderValue::from_static(""))) };
    }
    let now = SystemTime::now();
    let second = now
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    CACHED.with_borrow_mut(|(of, value)| {
        if *of != second {
            *of = second;
            *value = HeaderValue::from_str(&httpdate::fmt_http_date(now))
                .expect("a date is letters, digits, spaces and colons");
        }
        value.clone()
    })
}
