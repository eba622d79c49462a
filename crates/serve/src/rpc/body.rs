//! Bodies of calls: of requests that may stall, and of responses that may have to wait.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::{
    runtime::Handle,
    time::{Sleep, sleep, timeout},
};
use tonic::{Status, body::Body};

use super::scan::Scan;
use crate::{
    app::{BoxError, drain},
    connection::{Connection, LINGER, Waiting},
};

/// A request's body that fails when nothing comes for too long, or what comes is no call.
pub(crate) struct Patient<B>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    /// `None` once it is dropped.
    body: Option<B>,
    patience: Duration,
    lingers: bool,
    /// Where the messages are looked at.
    scan: Option<Scan>,
    /// Made when there is something to wait for: most requests have arrived whole.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<B> Patient<B>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    /// `lingers` has what is left of the body read when nobody wants it any more, for a while: on
    /// HTTP/1.1 the connection would be closed, by a reset where more is on its way, and the client may
    /// not have read the response or send its next request there.
    pub(crate) fn new(body: B, patience: Duration, lingers: bool) -> Self {
        Self {
            body: Some(body),
            patience,
            lingers,
            scan: None,
            sleep: None,
        }
    }

    /// With `scan` looking at what comes.
    pub(super) fn scanned(mut self, scan: Option<Scan>) -> Self {
        self.scan = scan;
        self
    }
}

impl<B> Drop for Patient<B>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    fn drop(&mut self) {
        if self.lingers
            && let Some(body) = self.body.take().filter(|body| !body.is_end_stream())
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move {
                let _ = timeout(LINGER, drain(body)).await;
            });
        }
    }
}

impl<B> HttpBody for Patient<B>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) {
            self.sleep = None;
            let frame = frame.map(|frame| frame.map_err(Into::into));
            if !matches!(frame, Some(Ok(_))) {
                self.lingers = false;
            }
            if let Some(Ok(frame)) = &frame
                && let (Some(data), Some(scan)) = (frame.data_ref(), &mut self.scan)
                && let Err(status) = scan.take(data)
            {
                self.scan = None;
                return Poll::Ready(Some(Err(status.into())));
            }
            return Poll::Ready(frame);
        }
        let patience = self.patience;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep(patience)));
        if sleep.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        let status = Status::deadline_exceeded(format!(
            "nothing of the request came for {} s",
            patience.as_secs()
        ));
        Poll::Ready(Some(Err(status.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.as_ref();
        body.map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}

/// A response's body, from a service.
///
/// While the service has nothing, the peer waits for us. While nobody asks for more, we wait for
/// the peer, and the keeper of the connection may lose its patience.
pub(crate) struct Call {
    body: Body,
    connection: Arc<Connection>,
    waiting: Option<Waiting>,
}

impl Call {
    pub(crate) fn new(body: Body, connection: Arc<Connection>) -> Self {
        Self {
            body,
            connection,
            waiting: None,
        }
    }
}

impl HttpBody for Call {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(frame) => {
                self.waiting = None;
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => {
                if self.waiting.is_none() {
                    self.waiting = Some(self.connection.wait());
                }
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
