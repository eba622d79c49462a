//! `grpc-timeout`: the caller's deadline, for the response's head and for its content.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tonic::{Status, body::Body};

use super::Calling;

const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// When the response must be complete. Syntax: "Requests" in gRPC over HTTP2.
pub(super) fn read(fields: &HeaderMap) -> Result<Option<Instant>, Status> {
    let Some(value) = fields.get(TIMEOUT) else {
        return Ok(None);
    };
    let timeout = value.to_str().ok().and_then(parse).ok_or_else(|| {
        Status::invalid_argument(format!(
            "grpc-timeout is {value:?}: give at most 8 digits and a unit of H M S m u n"
        ))
    })?;
    // At most 11,416 years.
    Ok(Instant::now().checked_add(timeout))
}

/// Gives a call a deadline that has none.
pub(super) fn set(fields: &mut HeaderMap, timeout: Duration) -> Option<Instant> {
    let value = HeaderValue::try_from(trilane_grpc::timeout::encode(timeout)).ok()?;
    fields.insert(TIMEOUT, value);
    Instant::now().checked_add(timeout)
}

fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if !(1..=8).contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

/// The call's response, or the deadline's: this clock decides. A server that keeps the same deadline ends the call
/// at the same time, in a way of its own, which may be CANCELLED.
pub(super) async fn keep(at: Instant, called: Calling) -> Result<Response<Body>, Infallible> {
    match timeout_at(at, called).await {
        Ok(Ok(response)) if Instant::now() < at => {
            Ok(response.map(|body| match body.is_end_stream() {
                true => body,
                false => Body::new(Limited {
                    body: Some(body),
                    at,
                    sleep: None,
                }),
            }))
        }
        _ => Ok(exceeded().into_http()),
    }
}

fn exceeded() -> Status {
    Status::deadline_exceeded(
        "the call was not complete by its deadline (grpc-timeout; --upstream-timeout where it brings none)",
    )
}

/// A body that ends with DEADLINE_EXCEEDED if it has not ended before.
struct Limited {
    /// `None` after the end.
    body: Option<Body>,
    at: Instant,
    /// Made when there is something to wait for.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for Limited {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let at = self.at;
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        // A stream that is always ready would never come to the timer.
        if Instant::now() < at {
            if let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) {
                return Poll::Ready(frame);
            }
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(at)));
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
        self.body = None;
        let mut trailers = HeaderMap::new();
        // Fails for a message that is no field value, which ours is.
        let _ = exceeded().add_header(&mut trailers);
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::time::sleep;
    use tonic::Code;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(100);

    /// What comes of a call that the server ends so, after this time.
    async fn ended(after: Duration, by: Status) -> Code {
        let called: Calling = Box::pin(async move {
            sleep(after).await;
            Ok(by.into_http())
        });
        let Ok(response) = keep(Instant::now() + LIMIT, called).await;
        Status::from_header_map(response.headers()).unwrap().code()
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_gives_up_at_the_deadline_does_not_decide_how_it_is_told() {
        for by in [
            Status::cancelled(""),
            Status::unavailable(""),
            Status::ok(""),
        ] {
            assert_eq!(ended(LIMIT, by.clone()).await, Code::DeadlineExceeded);
            let before = LIMIT - Duration::from_millis(1);
            assert_eq!(ended(before, by.clone()).await, by.code());
            assert_eq!(ended(2 * LIMIT, by).await, Code::DeadlineExceeded);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nor_does_one_that_gives_up_after_it_has_begun() {
        let body = http_body_util::StreamBody::new(futures_util::stream::once(async {
            sleep(LIMIT).await;
            let mut trailers = HeaderMap::new();
            Status::cancelled("").add_header(&mut trailers).unwrap();
            Ok::<_, Status>(Frame::trailers(trailers))
        }));
        let called: Calling = Box::pin(async { Ok(Response::new(Body::new(body))) });
        let Ok(response) = keep(Instant::now() + LIMIT, called).await;
        let trailers = response.into_body().collect().await.unwrap();
        let status = Status::from_header_map(trailers.trailers().unwrap());
        assert_eq!(status.unwrap().code(), Code::DeadlineExceeded);
    }

    #[test]
    fn timeouts_have_eight_digits_and_a_unit() {
        for (text, expected) in [
            ("1H", Duration::from_secs(3600)),
            ("2M", Duration::from_secs(120)),
            ("99999999S", Duration::from_secs(99_999_999)),
            ("100m", Duration::from_millis(100)),
            ("5u", Duration::from_micros(5)),
            ("0n", Duration::ZERO),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        for text in ["", "S", "1", "123456789S", "-1S", "1.5S", "1s", "1é", " 1S"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
