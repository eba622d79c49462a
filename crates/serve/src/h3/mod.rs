//! HTTP/3 over QUIC, by h3 and quinn.

mod body;
mod guard;
mod quic;

use std::{
    cell::RefCell,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::{Buf, Bytes};
use h3::{
    error::{Code, StreamError},
    quic::SendStream as _,
    server::{RequestResolver, RequestStream},
};
use http::{HeaderValue, Response, header::DATE};
use hyper::body::Body as _;
use quinn::crypto::rustls::HandshakeData;
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};

use self::body::Body;
use crate::{
    app::{App, Reply, handle},
    connection::{Connection, HANDSHAKE_TIMEOUT, MAX_HEAD, PATIENCE, Tls},
    worker::Signal,
};

type Resolver = RequestResolver<quic::Connection, Bytes>;

/// Longest wait for the peer to take what has been written, once all requests are answered.
const LINGER: Duration = Duration::from_secs(5);
/// A connection that sent nothing for this long has nothing left to send.
const QUIET: Duration = Duration::from_millis(100);

/// Serves one QUIC connection until the peer leaves or has to.
pub(crate) async fn serve(
    incoming: quinn::Incoming,
    app: Arc<App>,
    limit: Option<u64>,
    mut signal: watch::Receiver<Signal>,
    _alive: mpsc::Sender<()>,
) {
    let Ok(connecting) = incoming.accept() else {
        return;
    };
    let Ok(Ok(quic)) = timeout(HANDSHAKE_TIMEOUT, connecting).await else {
        return;
    };
    let connection = Connection::new(quic.remote_address(), Some(describe(&quic)), limit);
    let mut builder = h3::server::builder();
    builder.max_field_section_size(u64::from(MAX_HEAD));
    let Ok(mut h3) = builder.build(quic::Connection::new(quic.clone())).await else {
        return;
    };
    // Each request holds a sender; ours is given up when no more requests are taken.
    let (busy, mut idle) = mpsc::channel::<()>(1);
    let mut open = Some(busy);
    loop {
        tokio::select! {
            // Requests first: polling them is most of what this loop does.
            biased;
            accepted = h3.accept() => match (accepted, &open) {
                (Ok(Some(resolver)), Some(busy)) => {
                    connection.count_request();
                    tokio::spawn(answer(resolver, app.clone(), connection.clone(), busy.clone()));
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

async fn answer(
    resolver: Resolver,
    app: Arc<App>,
    connection: Arc<Connection>,
    _busy: mpsc::Sender<()>,
) {
    // On any failure the streams are dropped, which resets them.
    let Ok(Ok((request, mut stream))) = timeout(PATIENCE, resolver.resolve_request()).await else {
        return;
    };
    let start = poll_fn(|cx| {
        Poll::Ready(
            stream
                .poll_recv_data(cx)
                .map_ok(|piece| piece.map(|mut piece| piece.copy_to_bytes(piece.remaining()))),
        )
    });
    // Nearly every request ends with its head, in the same packet.
    let first = match start.await {
        Poll::Ready(Ok(None)) => {
            let answer = handle(&app, &connection, request.map(|()| Body::Ended));
            let Ok(response) = answer.await else { return };
            // A peer that went away needs no report.
            let _ = send(&mut stream, response).await;
            return;
        }
        Poll::Ready(Err(_)) => return,
        Poll::Ready(Ok(piece)) => piece,
        Poll::Pending => None,
    };
    let length = body::declared_length(request.headers());
    let (mut sender, receiver) = stream.split();
    let request = request.map(|()| Body::new(first, length, receiver));
    let Ok(response) = handle(&app, &connection, request).await else {
        return;
    };
    let _ = send(&mut sender, response).await;
}

/// Sends a response. A small one leaves as one write, so as one STREAM frame.
async fn send<S>(
    stream: &mut RequestStream<S, Bytes>,
    response: Response<Reply<Body>>,
) -> Result<(), StreamError>
where
    S: h3::quic::SendStream<Bytes>,
{
    let (mut head, mut body) = response.into_parts();
    head.headers.insert(DATE, date());
    stream.send_response(Response::from_parts(head, ())).await?;
    loop {
        let ready = poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx)));
        let frame = match ready.await {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                stream.send_data(quic::FLUSH).await?;
                poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await
            }
        };
        match frame.map(|frame| frame.map(|frame| frame.into_data())) {
            Some(Ok(Ok(data))) if data.is_empty() => {}
            Some(Ok(Ok(data))) => stream.send_data(data).await?,
            // Trailers: our body has none.
            Some(Ok(Err(_))) => {}
            Some(Err(_)) => {
                stream.stop_stream(Code::H3_INTERNAL_ERROR);
                return Ok(());
            }
            None => return stream.finish().await,
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
