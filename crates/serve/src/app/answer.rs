//! The future of a response, which mostly has come when it is made.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::{HeaderName, HeaderValue, Response, StatusCode};

use super::{BoxError, Reply};

type Outcome<B> = Result<Response<Reply<B>>, BoxError>;
type Fields = Vec<(HeaderName, HeaderValue)>;

/// Resolves to the response; only one that has to wait costs an allocation.
pub(crate) enum Answer<B> {
    /// Ready; empty once taken.
    Now(Option<Response<Reply<B>>>),
    /// In the making, and what to add to it then.
    Later(Pin<Box<dyn Future<Output = Outcome<B>> + Send>>, Fields),
}

impl<B> Answer<B> {
    pub(crate) fn now(response: Response<Reply<B>>) -> Self {
        Self::Now(Some(response))
    }

    pub(crate) fn later(work: impl Future<Output = Outcome<B>> + Send + 'static) -> Self {
        Self::Later(Box::pin(work), Fields::new())
    }

    /// The connection will speak another protocol.
    pub(crate) fn is_switch(&self) -> bool {
        matches!(self, Self::Now(Some(response)) if response.status() == StatusCode::SWITCHING_PROTOCOLS)
    }

    /// Adds a field to the response's head.
    pub(crate) fn add_field(&mut self, name: HeaderName, value: HeaderValue) {
        match self {
            Self::Now(Some(response)) => {
                response.headers_mut().insert(name, value);
            }
            Self::Now(None) => {}
            Self::Later(_, fields) => fields.push((name, value)),
        }
    }
}

// Nothing in it is pinned in place: the work is boxed.
impl<B> Unpin for Answer<B> {}

impl<B> Future for Answer<B> {
    type Output = Outcome<B>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Now(response) => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                None => Poll::Pending,
            },
            Self::Later(work, fields) => work.as_mut().poll(cx).map(|outcome| {
                outcome.map(|mut response| {
                    response.headers_mut().extend(fields.drain(..));
                    response
                })
            }),
        }
    }
}
