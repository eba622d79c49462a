//! What h3 asks of QUIC, given by quinn.
//!
//! The `h3-quinn` crate does the same; ours differs in three points. A peer cannot do what
//! [`guard`](super::guard) forbids. The frames of a small response are written together,
//! which saves locks and STREAM frames. Nothing is allocated to read from a stream.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use h3::{
    error::Code,
    quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf},
};
use quinn::{ConnectionError, ReadError, StoppedError, VarInt, WriteError};
use tokio_util::{sync::ReusableBoxFuture, task::AbortOnDropHandle};

use super::guard::{Guard, Refused};

/// Frames of a request stream up to this size are kept until more follows: a full packet.
const TOGETHER: usize = 1200;

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
            Ok(stream) => Ok(RecvStream {
                connection: Some(self.quinn.clone()),
                ..RecvStream::new(stream, Guard::of_unidirectional())
            }),
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
                recv: RecvStream::new(recv, Guard::of_request()),
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
                recv: RecvStream::new(recv, Guard::of_request()),
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
        self.recv.poll_data(cx)
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.recv.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.recv.recv_id()
    }
}

/// The receiving half.
pub(super) struct RecvStream {
    id: StreamId,
    /// `None` once it is [`Self::encoder`]'s.
    quinn: Option<quinn::RecvStream>,
    guard: Guard,
    /// Of a unidirectional stream, some of which may close the connection.
    connection: Option<quinn::Connection>,
    /// Reads what a QPACK encoder says, of which h3 reads the stream's type only.
    encoder: Option<AbortOnDropHandle<()>>,
}

impl RecvStream {
    fn new(quinn: quinn::RecvStream, guard: Guard) -> Self {
        Self {
            id: stream_id(quinn.id()),
            quinn: Some(quinn),
            guard,
            connection: None,
            encoder: None,
        }
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let Some(quinn) = &mut self.quinn else {
            return Poll::Pending;
        };
        // The future holds no state of its own: dropping it while it waits loses nothing.
        let chunk = ready!(pin!(quinn.read_chunk(usize::MAX, true)).poll(cx));
        let bytes = match chunk {
            Ok(Some(chunk)) => chunk.bytes,
            Ok(None) => return Poll::Ready(Ok(None)),
            Err(error) => return Poll::Ready(Err(read_error(error))),
        };
        let checked = self.guard.check(&bytes);
        if checked == Err(Refused::Frame) {
            let error_code = Code::H3_EXCESSIVE_LOAD.value();
            self.stop_sending(error_code);
            return Poll::Ready(Err(StreamErrorIncoming::StreamTerminated { error_code }));
        }
        if self.guard.is_of_encoder()
            && let Some((quinn, connection)) = self.quinn.take().zip(self.connection.take())
        {
            let guard = std::mem::replace(&mut self.guard, Guard::of_unidirectional());
            let following = tokio::spawn(async move {
                let code = follow_encoder(checked, quinn, guard).await;
                if let Some(code) = code {
                    connection.close(varint(code.value()), b"");
                }
            });
            self.encoder = Some(AbortOnDropHandle::new(following));
        }
        Poll::Ready(Ok(Some(bytes)))
    }

    fn stop_sending(&mut self, error_code: u64) {
        if let Some(quinn) = &mut self.quinn {
            // Fails on a stream that has ended, which needs no stopping.
            let _ = quinn.stop(varint(error_code));
        }
    }

    fn recv_id(&self) -> StreamId {
        self.id
    }
}

/// Reads a QPACK encoder's stream until the connection ends, or returns why it has to.
async fn follow_encoder(
    mut checked: Result<(), Refused>,
    mut quinn: quinn::RecvStream,
    mut guard: Guard,
) -> Option<Code> {
    loop {
        if checked.is_err() {
            return Some(Code::QPACK_ENCODER_STREAM_ERROR);
        }
        checked = match quinn.read_chunk(usize::MAX, true).await {
            Ok(Some(chunk)) => guard.check(&chunk.bytes),
            // RFC 9204 section 4.2.
            Ok(None) | Err(ReadError::Reset(_)) => return Some(Code::H3_CLOSED_CRITICAL_STREAM),
            Err(_) => return None,
        };
    }
}

/// The sending half.
pub(super) struct SendStream {
    quinn: quinn::SendStream,
    /// A request stream: small frames may wait for the next one.
    gathers: bool,
    /// Bytes to be sent first, and how many of them have been.
    gathered: Vec<u8>,
    written: usize,
    /// A frame that is too long to be gathered; rare, and large in itself.
    frame: Option<Box<WriteBuf<Bytes>>>,
    flush: bool,
    ended: bool,
}

impl SendStream {
    fn new(quinn: quinn::SendStream, gathers: bool) -> Self {
        Self {
            quinn,
            gathers,
            gathered: Vec::new(),
            written: 0,
            frame: None,
            flush: false,
            ended: false,
        }
    }

    fn poll_write_all(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        while self.written < self.gathered.len() {
            let bytes = &self.gathered[self.written..];
            let count = ready!(Pin::new(&mut self.quinn).poll_write(cx, bytes));
            self.written += count.map_err(write_error)?;
        }
        self.gathered.clear();
        self.written = 0;
        if let Some(frame) = &mut self.frame {
            while frame.has_remaining() {
                let count = ready!(Pin::new(&mut self.quinn).poll_write(cx, frame.chunk()));
                frame.advance(count.map_err(write_error)?);
            }
        }
        self.frame = None;
        self.flush = false;
        Poll::Ready(Ok(()))
    }

    /// Fails if the peer does not want the stream any more. There is nothing to write that would
    /// find out.
    fn poll_stopped(&self, cx: &mut Context<'_>) -> Result<(), StreamErrorIncoming> {
        match pin!(self.quinn.stopped()).poll(cx) {
            Poll::Ready(Ok(Some(code))) => Err(StreamErrorIncoming::StreamTerminated {
                error_code: code.into_inner(),
            }),
            Poll::Ready(Err(StoppedError::ConnectionLost(error))) => Err(lost(error)),
            Poll::Ready(Ok(None) | Err(StoppedError::ZeroRttRejected)) | Poll::Pending => Ok(()),
        }
    }

    /// Appends what is contiguous at the front of a frame: its header, or all of it in turn.
    fn gather(&mut self, frame: &mut WriteBuf<Bytes>) {
        let chunk = frame.chunk();
        let length = chunk.len();
        self.gathered.extend_from_slice(chunk);
        frame.advance(length);
    }
}

impl quic::SendStream<Bytes> for SendStream {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        if self.gathers && self.frame.is_none() && !self.flush {
            return Poll::Ready(Ok(()));
        }
        if self.flush && self.gathered.is_empty() {
            self.poll_stopped(cx)?;
        }
        self.poll_write_all(cx)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.frame.is_some() {
            // h3 waits for `poll_ready` between two frames.
            return Err(StreamErrorIncoming::ConnectionErrorIncoming {
                connection_error: ConnectionErrorIncoming::InternalError(
                    "a frame was sent before the last one was written".into(),
                ),
            });
        }
        let mut frame = data.into();
        // DATA (0x00) of length 0; see `FLUSH`.
        if self.gathers && frame.remaining() == 2 && frame.chunk() == [0, 0] {
            self.flush = true;
            return Ok(());
        }
        if self.gathered.capacity() == 0 {
            self.gathered
                .reserve_exact(frame.remaining().min(TOGETHER) + 32);
        }
        if self.gathered.len() + frame.remaining() <= TOGETHER {
            while frame.has_remaining() {
                self.gather(&mut frame);
            }
        } else {
            // At least the frame's header can go along with what is there.
            self.gather(&mut frame);
            self.frame = Some(Box::new(frame));
        }
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_write_all(cx))?;
        self.ended = true;
        Poll::Ready(
            self.quinn
                .finish()
                .map_err(|error| StreamErrorIncoming::Unknown(Box::new(error))),
        )
    }

    fn reset(&mut self, reset_code: u64) {
        self.ended = true;
        // Fails on a stream that has ended, which needs no reset.
        let _ = self.quinn.reset(varint(reset_code));
    }

    fn send_id(&self) -> StreamId {
        stream_id(self.quinn.id())
    }
}

impl Drop for SendStream {
    /// quinn would end the stream properly, and a response cut short must not look complete.
    fn drop(&mut self) {
        if !self.ended {
            quic::SendStream::reset(self, Code::H3_INTERNAL_ERROR.value());
        }
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

fn read_error(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(code) => StreamErrorIncoming::StreamTerminated {
            error_code: code.into_inner(),
        },
        ReadError::ConnectionLost(error) => lost(error),
        other => StreamErrorIncoming::Unknown(Box::new(other)),
    }
}

fn write_error(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(code) => StreamErrorIncoming::StreamTerminated {
            error_code: code.into_inner(),
        },
        WriteError::ConnectionLost(error) => lost(error),
        other => StreamErrorIncoming::Unknown(Box::new(other)),
    }
}
