//! Services in this process, in the place of a server.

use std::{
    convert::Infallible,
    fmt,
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError},
};

use http::{Request, Response};
use tonic::body::Body;
use tower_service::Service;

use super::fields;
use crate::rpc::Calling;

/// Services in this process that are called without a connection: anything that takes requests of gRPC, as
/// the servers do that tonic generates, and `tonic::service::Routes`, which has several.
#[derive(Clone)]
pub struct InProcess(Arc<dyn Fn(Request<Body>) -> Calling + Send + Sync>);

impl InProcess {
    /// Each call goes to a clone of `service`, on the worker thread that has its connection.
    pub fn new<S>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send,
    {
        // Services of tonic can be shared by threads; others need not be.
        let service = Mutex::new(service);
        Self(Arc::new(move |request| {
            let service = service.lock();
            let mut service = service.unwrap_or_else(PoisonError::into_inner).clone();
            Box::pin(async move {
                poll_fn(|cx| service.poll_ready(cx)).await?;
                let mut response = service.call(request).await?;
                fields::of_response(response.headers_mut());
                Ok(response)
            })
        }))
    }

    pub(super) fn call(&self, mut request: Request<Body>) -> Calling {
        fields::make_call(request.headers_mut());
        (self.0)(request)
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}

impl PartialEq for InProcess {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for InProcess {}
