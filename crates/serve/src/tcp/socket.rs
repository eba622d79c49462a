//! The byte stream under hyper, which gathers what is written in one turn of a connection.
//!
//! Answers to pipelined requests leave together. hyper can gather them itself (`pipeline_flush`),
//! but then without bound, and it writes nothing, not even the refusal of a malformed request,
//! while bytes are left that it has not parsed.

use std::{
    future::poll_fn,
    io,
    mem::MaybeUninit,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::Connection;

/// A write as long as this is not gathered, and no more than this is.
const GATHERED: usize = 16 << 10;
/// What a peer that we are done with still sends is read, and thrown away, in such pieces.
const PIECE: usize = 16 << 10;
/// The most that is read of a peer that we are not ready for, such as its next requests. Behind more than that
/// its leaving is not seen ([`End::Unseen`]).
const AHEAD: usize = 64 << 10;

/// What there is to see of a peer that we are not ready for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It has ended its direction.
    Ended,
    /// It has sent so much that its end would not be seen.
    Unseen,
}

/// One of two handles: hyper reads and writes by its own; the keeper of the connection, by the
/// other, sends what was gathered.
pub(super) struct Socket<I>(Arc<Mutex<Inner<I>>>);

struct Inner<I> {
    io: I,
    connection: Arc<Connection>,
    /// Written by hyper, but not yet to `io`: the bytes from `sent` on.
    gathered: Vec<u8>,
    sent: usize,
    /// Read before hyper asked for it.
    ahead: Vec<u8>,
    is_gathering: bool,
    /// Written to `io`, which may hold it back until it is flushed: TLS does.
    is_unflushed: bool,
    is_shut: bool,
    /// The peer has sent its last byte.
    has_ended: bool,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Socket<I> {
    pub(super) fn new(io: I, connection: Arc<Connection>) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            io,
            connection,
            gathered: Vec::new(),
            sent: 0,
            ahead: Vec::new(),
            is_gathering: true,
            is_unflushed: false,
            is_shut: false,
            has_ended: false,
        })))
    }

    /// Sends what was gathered.
    pub(super) fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lock().poll_send(cx)
    }

    /// Reads on while hyper does not, which has had a whole request: ready when the peer has ended its direction, or
    /// when no more is read. Fails where the connection has broken.
    pub(super) fn poll_end(&self, cx: &mut Context<'_>) -> Poll<io::Result<End>> {
        self.lock().poll_end(cx)
    }

    /// From now on nothing waits for [`Self::poll_send`].
    pub(super) fn stop_gathering(&self) {
        self.lock().is_gathering = false;
    }

    /// Closes our direction and reads on until the peer has closed its own (RFC 9112 section 9.6).
    /// Closing both with bytes unread would be a reset, which takes the last answer away from a
    /// peer that has not read it yet.
    pub(super) async fn close(self) -> io::Result<()> {
        poll_fn(|cx| self.lock().poll_shutdown(cx)).await?;
        let mut piece = [0; PIECE];
        poll_fn(|cx| {
            let mut inner = self.lock();
            while !inner.has_ended {
                ready!(inner.poll_read(cx, &mut ReadBuf::new(&mut piece)))?;
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    fn lock(&self) -> MutexGuard<'_, Inner<I>> {
        // Both handles are used by one task, one after the other.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<I> Clone for Socket<I> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> Inner<I> {
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_gathering {
            // Who has the stream after an upgrade reads first, and must find the answer sent.
            let _ = self.poll_send(cx)?;
        }
        if !self.ahead.is_empty() {
            let count = self.ahead.len().min(buffer.remaining());
            buffer.put_slice(&self.ahead[..count]);
            self.ahead.drain(..count);
            return Poll::Ready(Ok(()));
        }
        if self.has_ended {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.io).poll_read(cx, buffer));
        self.has_ended |= read.is_err() || buffer.filled().len() == before;
        Poll::Ready(read)
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<End>> {
        // Nothing comes, mostly, and then nothing is written there.
        let mut piece = [MaybeUninit::uninit(); AHEAD / 16];
        while !self.has_ended {
            let room = piece.len().min(AHEAD - self.ahead.len());
            if room == 0 {
                return Poll::Ready(Ok(End::Unseen));
            }
            let mut buffer = ReadBuf::uninit(&mut piece[..room]);
            match ready!(Pin::new(&mut self.io).poll_read(cx, &mut buffer)) {
                // TLS says so of a peer that ends without a word.
                Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                    return Poll::Ready(Err(error));
                }
                Ok(()) if !buffer.filled().is_empty() => {
                    self.ahead.extend_from_slice(buffer.filled());
                    // Should hyper wait for it after all.
                    cx.waker().wake_by_ref();
                }
                _ => self.has_ended = true,
            }
        }
        Poll::Ready(Ok(End::Ended))
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = slices.iter().map(|slice| slice.len()).sum();
        if self.gathered.len() + length >= GATHERED {
            ready!(self.poll_empty(cx))?;
        }
        if !self.is_gathering || length >= GATHERED {
            ready!(self.poll_empty(cx))?;
            let written = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, slices));
            self.count_write();
            return Poll::Ready(written);
        }
        for slice in slices {
            self.gathered.extend_from_slice(slice);
        }
        Poll::Ready(Ok(length))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.is_gathering {
            true => Poll::Ready(Ok(())),
            false => self.poll_send(cx),
        }
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        if !self.is_shut {
            ready!(Pin::new(&mut self.io).poll_shutdown(cx))?;
            self.is_shut = true;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_empty(cx))?;
        if self.is_unflushed {
            ready!(Pin::new(&mut self.io).poll_flush(cx))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes what was gathered to `io`.
    fn poll_empty(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.gathered.len() {
            let rest = &self.gathered[self.sent..];
            let count = ready!(Pin::new(&mut self.io).poll_write(cx, rest))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += count;
            self.count_write();
        }
        self.gathered.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    fn count_write(&mut self) {
        self.is_unflushed = true;
        // A slow reader is told from a dead one by this.
        self.connection.count_write();
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncRead for Socket<I> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.lock().poll_read(cx, buffer)
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Socket<I> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.lock().poll_write(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.lock().poll_write(cx, slices)
    }

    /// One copy of a small answer is made here; hyper does not need to make another before.
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lock().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lock().poll_shutdown(cx)
    }
}
