//! Content as it is, both ways at a time: a method that streams `google.api.HttpBody` in both directions. The answer
//! begins with the service's first message, while the request's content still comes.

use bytes::Bytes;
use http::{HeaderMap, Version, header::CONTENT_TYPE};
use hyper::body::Body as HttpBody;
use trilane_transcode::{Found, Match};

use super::{
    Exchange,
    answer::{Outcome, Refusal},
    call::{self, Messages},
    coding, raw,
};
use crate::app::{Answer, BoxError};

/// Answers a request for such a method.
pub(super) fn handle<B>(exchange: Exchange, found: Match, body: B, fields: HeaderMap) -> Answer<B>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let waiting = exchange.connection.wait();
    Answer::later(async move {
        let _waiting = waiting;
        let answered = exchange
            .duplex(found, body)
            .await
            .unwrap_or_else(|refusal| {
                refusal.into_answered(&exchange.gateway.services, exchange.error_format())
            });
        Ok(answered.into_response(fields, &exchange.connection, false))
    })
}

impl Exchange {
    /// The method that the request is for, where it is one that streams content both ways. HTTP/1.1 is for one
    /// direction at a time: clients write all of a request before they read its answer.
    pub(super) fn wants_duplex(&self) -> Option<Match> {
        let services = &self.gateway.services;
        if self.head.version < Version::HTTP_2 || !services.has_duplex() {
            return None;
        }
        let router = services.router();
        let Found::Match(found) = router.find(self.head.method.as_str(), self.head.uri.path())
        else {
            return None;
        };
        let binding = &found.binding;
        let method = binding.method();
        let streams = method.is_client_streaming() && method.is_server_streaming();
        (streams && binding.takes_raw() && binding.gives_raw()).then_some(found)
    }

    async fn duplex<B>(&self, found: Match, mut body: B) -> Outcome
    where
        B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        coding::refuse(&self.head.headers)?;
        let binding = found.binding.clone();
        let (sender, requests) = call::channel();
        let query = self.head.uri.query().map(str::to_owned);
        let kind = self.field(CONTENT_TYPE).unwrap_or_default().to_owned();
        // It goes on while the answer is sent, and ends with the content or the call.
        let mut reading = self.gateway.sockets.spawn(async move {
            raw::send(&mut body, sender, &found, query.as_deref(), &kind).await
        });
        let calling = async {
            let called = call::start(self, &binding, requests).await?;
            let metadata = call::metadata(&called);
            let messages = Messages::new(called, self.max_message());
            let answered = raw::stream(messages, binding.clone()).await?;
            Ok::<_, Refusal>(answered.with_all(metadata))
        };
        tokio::pin!(calling);
        tokio::select! {
            biased;
            read = &mut reading => match read {
                // Why the call fails is better known here.
                Ok(Err(refusal)) => Err(refusal),
                _ => calling.await,
            },
            answered = &mut calling => answered,
        }
    }
}
