//! What h3 asks of QUIC, given by quinn.
//!
//! The `h3-quinn` crate does the same; ours differs in three points. A peer cannot do what
//! [`guard`](super::guard) forbids. The frames of a small response are written together,
//! which saves locks and STREAM frames. Nothing is allocated to read from a stream.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h3::{
    error::Code,
    quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf},
};
use quinn::{ConnectionError, VarInt};
use tokio_util::sync::ReusableBoxFuture;

use super::{guard::Guard, section::Heads};

mod receive;
mod send;

pub(super) use receive::RecvStream;
use send::SendStream;

/// A body up to this size is gathered with its head, which is a few hundred bytes.
pub(super) const SMALL: usize = 800;

/// Given to `send_data`, it is not sent but sends what is kept. An empty DATA frame says nothing,
/// so no meaning is lost.
pub(super) const FLUSH: Bytes = Bytes::new();

type Opened<T> = Pin<Box<dyn Future<Output = Result<T, ConnectionError>> + Send>>;
type StreamPair = (quinn::SendStream, quinn::RecvStream);
type Accepted = Result<StreamPair, ConnectionError>;

/// One QUIC connection.
pub(super) struct Connection {
    quinn: quinn::Connection,
    /// The next request stream. One future after the other, in the same memory.
    request: ReusableBoxFuture<'static, (Accepted, quinn::Connection)>,
    unidirectional: Option<Opened<quinn::RecvStream>>,
    opener: Opener,
    heads: Heads,
}

async fn accept(quinn: quinn::Connection) -> (Accepted, quinn::Connection) {
    (quinn.accept_bi().await, quinn)
}

impl Connection {
    pub(super) fn new(quinn: quinn::Connection) -> Self {
        Self {
            request: ReusableBoxFuture::new(accept(quinn.clone())),
            unidirectional: None,
            opener: Opener::new(quinn.clone()),
            heads: Heads::default(),
            quinn,
        }
    }
}

impl quic::Connection<Bytes> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = Opener;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RecvStream, ConnectionErrorIncoming>> {
        let accepted = self.unidirectional.get_or_insert_with(|| {
            let quinn = self.quinn.clone();
            Box::pin(async move { quinn.accept_uni().await })
        });
        let stream = ready!(accepted.as_mut().poll(cx));
        self.unidirectional = None;
        Poll::Ready(match stream {
            Ok(stream) => Ok(RecvStream::unidirectional(stream, self.quinn.clone())),
            Err(error) => Err(connection_error(error)),
        })
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream, ConnectionErrorIncoming>> {
        let (streams, quinn) = ready!(self.request.poll(cx));
        self.request.set(accept(quinn));
        Poll::Ready(match streams {
            Ok((send, recv)) => Ok(BidiStream {
                send: SendStream::new(send, true),
                recv: RecvStream::new(recv, Guard::of_request(self.heads.clone())),
            }),
            Err(error) => Err(connection_error(error)),
        })
    }

    fn opener(&self) -> Opener {
        Opener::new(self.quinn.clone())
    }
}

impl quic::OpenStreams<Bytes> for Connection {
    type BidiStream = BidiStream;
    type SendStream = SendStream;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream, StreamErrorIncoming>> {
        self.opener.poll_open_bidi(cx)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream, StreamErrorIncoming>> {
        self.opener.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.opener.close(code, reason);
    }
}

/// Opens our own streams: three or four per connection.
pub(super) struct Opener {
    quinn: quinn::Connection,
    bidirectional: Option<Opened<StreamPair>>,
    unidirectional: Option<Opened<quinn::SendStream>>,
}

impl Opener {
    fn new(quinn: quinn::Connection) -> Self {
        Self {
            quinn,
            bidirectional: None,
            unidirectional: None,
        }
    }
}

impl quic::OpenStreams<Bytes> for Opener {
    type BidiStream = BidiStream;
    type SendStream = SendStream;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream, StreamErrorIncoming>> {
        let opened = self.bidirectional.get_or_insert_with(|| {
            let quinn = self.quinn.clone();
            Box::pin(async move { quinn.open_bi().await })
        });
        let stream = ready!(opened.as_mut().poll(cx));
        self.bidirectional = None;
        Poll::Ready(match stream {
            Ok((send, recv)) => Ok(BidiStream {
                send: SendStream::new(send, false),
                recv: RecvStream::new(recv, Guard::of_request(Heads::default())),
            }),
            Err(error) => Err(lost(error)),
        })
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream, StreamErrorIncoming>> {
        let opened = self.unidirectional.get_or_insert_with(|| {
            let quinn = self.quinn.clone();
            Box::pin(async move { quinn.open_uni().await })
        });
        let stream = ready!(opened.as_mut().poll(cx));
        self.unidirectional = None;
        Poll::Ready(match stream {
            Ok(stream) => Ok(SendStream::new(stream, false)),
            Err(error) => Err(lost(error)),
        })
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.quinn.close(varint(code.value()), reason);
    }
}

/// A request stream before it is split.
pub(super) struct BidiStream {
    send: SendStream,
    recv: RecvStream,
}

impl quic::BidiStream<Bytes> for BidiStream {
    type SendStream = SendStream;
    type RecvStream = RecvStream;

    fn split(self) -> (SendStream, RecvStream) {
        (self.send, self.recv)
    }
}

impl quic::SendStream<Bytes> for BidiStream {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(cx)
    }

    fn reset(&mut self, reset_code: u64) {
        self.send.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

impl quic::RecvStream for BidiStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let polled = self.recv.poll_data(cx);
        if let Some(code) = self.recv.refused() {
            quic::SendStream::reset(&mut self.send, code.value());
        }
        polled
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.recv.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.recv.recv_id()
    }
}

fn varint(value: u64) -> VarInt {
    VarInt::from_u64(value).unwrap_or(VarInt::MAX)
}

fn stream_id(id: quinn::StreamId) -> StreamId {
    StreamId::try_from(u64::from(VarInt::from(id))).expect("stream ids of QUIC are those of HTTP/3")
}

fn connection_error(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::ApplicationClosed(close) => ConnectionErrorIncoming::ApplicationClose {
            error_code: close.error_code.into(),
        },
        ConnectionError::TimedOut => ConnectionErrorIncoming::Timeout,
        other => ConnectionErrorIncoming::Undefined(Arc::new(other)),
    }
}

fn lost(error: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming {
        connection_error: connection_error(error),
    }
}
