//! TLS that serves before its handshake is done: early data is read, and answered, at once.
//!
//! tokio-rustls ends the handshake first, and only then gives what came in early data: that would
//! take a client as long as without it.

use std::{
    future::poll_fn,
    io::{self, Read, Write},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use rustls::{ServerConfig, ServerConnection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A byte stream with TLS on it.
pub(crate) struct EarlyTls<I> {
    io: I,
    session: ServerConnection,
    /// Whether the handshake is under way: what is read until then may have been replayed.
    handshaking: Arc<AtomicBool>,
    /// Whether the peer has ended its direction, with close_notify or without.
    has_ended: bool,
    is_closing: bool,
}

impl<I: AsyncRead + AsyncWrite + Unpin> EarlyTls<I> {
    /// Shakes hands as far as is needed to serve: to the end, unless early data is there before.
    pub(crate) async fn accept(io: I, config: Arc<ServerConfig>) -> io::Result<Self> {
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        let mut stream = Self {
            io,
            session,
            handshaking: Arc::new(AtomicBool::new(true)),
            has_ended: false,
            is_closing: false,
        };
        poll_fn(|cx| stream.poll_accept(cx)).await?;
        Ok(stream)
    }

    pub(crate) fn session(&self) -> &ServerConnection {
        &self.session
    }

    /// Whether the handshake is under way, now and later.
    pub(crate) fn handshaking(&self) -> Arc<AtomicBool> {
        self.handshaking.clone()
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.session.is_handshaking() && self.session.early_data().is_none() {
            ready!(self.poll_push(cx))?;
            ready!(self.poll_pull(cx))?;
            if self.has_ended {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        // Whether the peer takes it now or later: what is written first comes behind it.
        let _ = self.poll_push(cx)?;
        Poll::Ready(Ok(()))
    }

    /// Reads records from the peer.
    fn poll_pull(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let io = &mut self.io;
        let count = ready!(polled(self.session.read_tls(&mut Polled { io, cx })))?;
        self.has_ended |= count == 0;
        let state = self.session.process_new_packets();
        if !self.session.is_handshaking() {
            self.handshaking.store(false, Relaxed);
        }
        let Err(error) = state else {
            return Poll::Ready(Ok(()));
        };
        // The alert that says why, as far as the socket takes it at once.
        let _ = self.poll_push(cx);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)))
    }

    /// Writes records to the peer until there are none.
    fn poll_push(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.session.wants_write() {
            let io = &mut self.io;
            match ready!(polled(self.session.write_tls(&mut Polled { io, cx })))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                _ => continue,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Plaintext that has come, that of early data before all other. `None` where there is none now.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if let Some(mut early) = self.session.early_data() {
            let count = early.read(buffer)?;
            if count > 0 {
                return Ok(Some(count));
            }
        }
        match self.session.reader().read(buffer) {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncRead for EarlyTls<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if let Some(count) = self.take(buffer.initialize_unfilled())? {
                buffer.advance(count);
                return Poll::Ready(Ok(()));
            }
            if self.has_ended {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            // The handshake goes on while the peer is read: it has answers of its own.
            let _ = self.poll_push(cx)?;
            ready!(self.poll_pull(cx))?;
            let _ = self.poll_push(cx)?;
        }
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for EarlyTls<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let count = self.session.writer().write(bytes)?;
            let pushed = self.poll_push(cx)?;
            if count > 0 || bytes.is_empty() {
                return Poll::Ready(Ok(count));
            }
            ready!(pushed);
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_push(cx))?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_closing {
            self.is_closing = true;
            self.session.send_close_notify();
        }
        ready!(self.poll_push(cx))?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// The socket as rustls reads and writes it: what would have to wait would block.
struct Polled<'a, 'c, I> {
    io: &'a mut I,
    cx: &'a mut Context<'c>,
}

impl<I: AsyncRead + Unpin> Read for Polled<'_, '_, I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        match Pin::new(&mut *self.io).poll_read(self.cx, &mut buffer) {
            Poll::Ready(read) => read.map(|()| buffer.filled().len()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl<I: AsyncWrite + Unpin> Write for Polled<'_, '_, I> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match Pin::new(&mut *self.io).poll_write(self.cx, bytes) {
            Poll::Ready(written) => written,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// As a poll, the outcome of a call through [`Polled`].
fn polled<T>(outcome: io::Result<T>) -> Poll<io::Result<T>> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        outcome => Poll::Ready(outcome),
    }
}
