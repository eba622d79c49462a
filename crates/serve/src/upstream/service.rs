//! The servers that have one service: which of them a call goes to, and when to another.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::Poll,
};

use http::{Request, Response};
use tokio::time::{Instant, timeout};
use tonic::{Status, body::Body};

use super::{
    call::{Failure, Head},
    content::Content,
    dial::CONNECT_TIMEOUT,
    fields,
    limits::Limits,
    peer::Peer,
    pool::{Server, Standing},
};
use crate::{caller::Place, rpc::Calling};

/// How often a request is sent at most that no server has processed.
const ATTEMPTS: usize = 4;

/// The upstreams of one service.
pub(crate) struct Service {
    peers: Vec<Arc<Peer>>,
    /// Most bytes of a message.
    message: Option<u32>,
    /// Where the last search for the least loaded began.
    turn: AtomicUsize,
}

/// A server that has not answered a call.
struct Tried {
    server: Arc<Server>,
    /// Whether it may be tried again where there is no other.
    may_repeat: bool,
}

/// What to do for the next attempt.
enum Choice {
    Call(Arc<Server>),
    /// Wait until it has said whether it serves.
    Ask(Arc<Server>),
    /// No server is left.
    None,
}

impl Service {
    pub(super) fn new(peers: Vec<Arc<Peer>>, limits: &Limits) -> Self {
        Self {
            peers,
            message: limits.message,
            turn: AtomicUsize::new(0),
        }
    }

    /// Calls a method there: the request is one of gRPC, without what concerns a connection.
    pub(crate) fn call(self: Arc<Self>, request: Request<Body>, place: Place) -> Calling {
        Box::pin(async move {
            let called = self.send(request, place).await;
            Ok::<_, Infallible>(called.unwrap_or_else(|status| status.into_http()))
        })
    }

    async fn send(&self, request: Request<Body>, place: Place) -> Result<Response<Body>, Status> {
        let (mut parts, body) = request.into_parts();
        fields::make_call(&mut parts.headers);
        let head = Head::new(parts.uri, parts.headers)?;
        let content = Arc::new(Content::new(body, self.message));
        let mut place = Some(place);
        let mut tried: Vec<Tried> = Vec::new();
        let mut last = None;
        while tried.len() < ATTEMPTS {
            let server = match self.pick(&tried).await {
                Ok(Some(server)) => server,
                Ok(None) => break,
                Err(status) => {
                    last.get_or_insert(status);
                    break;
                }
            };
            let may_repeat = match server.call(&head, &content, &mut place).await {
                Ok(response) => return Ok(response),
                Err(Failure::Lost(status)) => return Err(status),
                Err(Failure::Unconnected(status)) => {
                    self.peers.iter().for_each(Peer::refresh);
                    last = Some(status);
                    false
                }
                Err(Failure::Unprocessed(status)) => {
                    last = Some(status);
                    true
                }
            };
            if !content.can_repeat() {
                break;
            }
            tried.push(Tried { server, may_repeat });
        }
        Err(last.unwrap_or_else(|| Status::unavailable("there is no server")))
    }

    /// The server for the next attempt, which may have to say first whether it serves.
    async fn pick(&self, tried: &[Tried]) -> Result<Option<Arc<Server>>, Status> {
        loop {
            let all = self.servers().await?;
            match self.choose(&all, tried)? {
                Choice::Call(server) => return Ok(Some(server)),
                Choice::Ask(server) => wait_for_health(&all, &server).await?,
                Choice::None => return Ok(None),
            }
        }
    }

    /// Of the servers that are there and have not been tried, the one with the fewest calls.
    fn choose(&self, all: &[Arc<Server>], tried: &[Tried]) -> Result<Choice, Status> {
        let now = Instant::now();
        // One turn for each call, however often it is sent.
        let turn = match tried {
            [] => self.turn.fetch_add(1, Relaxed),
            _ => self.turn.load(Relaxed),
        };
        let turn = turn % all.len().max(1);
        let standings: Vec<_> = all[turn..]
            .iter()
            .chain(&all[..turn])
            .map(|server| (server, server.standing(now)))
            .collect();
        let least = |standing, may_be: &dyn Fn(&Tried) -> bool| {
            let fit = standings.iter().filter(|(server, its)| {
                let before = tried
                    .iter()
                    .find(|tried| Arc::ptr_eq(&tried.server, server));
                *its == standing && before.is_none_or(may_be)
            });
            let least = fit.min_by_key(|(server, _)| server.load());
            least.map(|(server, _)| Arc::clone(server))
        };
        if let Some(server) = least(Standing::Ready, &|_| false) {
            return Ok(Choice::Call(server));
        }
        if let Some(server) = least(Standing::Unknown, &|_| false) {
            return Ok(Choice::Ask(server));
        }
        if !tried.is_empty() {
            // One that refused may take it now.
            let again = least(Standing::Ready, &|tried| tried.may_repeat);
            return Ok(again.map_or(Choice::None, Choice::Call));
        }
        // There is none but those that fail: the one that has rested longest is tried with this call.
        let failing = standings
            .iter()
            .filter(|(_, standing)| *standing == Standing::Failing)
            .min_by_key(|(server, _)| server.rests_until());
        match (failing, &standings[..]) {
            (Some((server, _)), _) => Ok(Choice::Call(Arc::clone(server))),
            (None, [(unfit, _), ..]) => Err(Status::unavailable(format!(
                "{} does not serve, as it says itself (grpc.health.v1)",
                unfit.label()
            ))),
            (None, []) => Ok(Choice::None),
        }
    }

    /// The servers that are known; where none is, those of the first name that is looked up.
    async fn servers(&self) -> Result<Vec<Arc<Server>>, Status> {
        let mut all = Vec::new();
        for peer in &self.peers {
            all.extend(peer.known().iter().cloned());
        }
        let mut failure = None;
        for peer in self.peers.iter().take_while(|_| all.is_empty()) {
            match peer.servers().await {
                Ok(servers) => return Ok(servers.to_vec()),
                Err(status) => failure = Some(status),
            }
        }
        failure.map_or(Ok(all), Err)
    }
}

/// Waits until a server has said whether it serves; this one has not yet.
async fn wait_for_health(all: &[Arc<Server>], server: &Arc<Server>) -> Result<(), Status> {
    let mut said: Vec<_> = all.iter().map(|server| server.health()).collect();
    let mut said: Vec<_> = said
        .iter_mut()
        .map(|said| Box::pin(said.changed()))
        .collect();
    let any = poll_fn(|cx| {
        let mut said = said.iter_mut();
        match said.any(|said| said.as_mut().poll(cx).is_ready()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    });
    timeout(CONNECT_TIMEOUT, any).await.map_err(|_| {
        Status::unavailable(format!(
            "{} has not said within {} s whether it serves",
            server.label(),
            CONNECT_TIMEOUT.as_secs()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::{
        Place, Upstream,
        dial::{Address, Dial},
        health::Health,
    };

    fn server(port: u16, health: bool) -> Arc<Server> {
        let upstream = Upstream {
            place: Place::Host {
                host: "127.0.0.1".into(),
                port,
            },
            tls: None,
            name: None,
            services: Vec::new(),
        };
        let limits = Limits {
            health,
            ..Limits::default()
        };
        let dial = Arc::new(Dial::new(&upstream).unwrap());
        let address = Address::Tcp(([127, 0, 0, 1], port).into());
        Server::new(dial, address, limits, Arc::new(|| {}))
    }

    fn chosen(service: &Service, all: &[Arc<Server>], tried: &[Tried]) -> Option<String> {
        match service.choose(all, tried) {
            Ok(Choice::Call(server)) => Some(server.label()),
            Ok(Choice::None) => None,
            Ok(Choice::Ask(server)) => Some(format!("{}?", server.label())),
            Err(status) => Some(status.message().to_owned()),
        }
    }

    #[test]
    fn the_least_loaded_is_called_and_those_alike_in_turn() {
        let service = Service::new(Vec::new(), &Limits::default());
        let all = [server(1, false), server(2, false), server(3, false)];
        let mut first: Vec<_> = (0..3).filter_map(|_| chosen(&service, &all, &[])).collect();
        first.sort();
        assert_eq!(first, ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]);
        let loads = [all[0].hold(), all[2].hold()];
        for _ in 0..3 {
            assert_eq!(chosen(&service, &all, &[]).as_deref(), Some("127.0.0.1:2"));
        }
        drop(loads);
    }

    #[test]
    fn a_server_that_refused_is_tried_again_where_there_is_no_other() {
        let service = Service::new(Vec::new(), &Limits::default());
        let all = [server(1, false), server(2, false)];
        let tried = |number: usize, may_repeat| Tried {
            server: all[number].clone(),
            may_repeat,
        };
        let after = |tried: &[Tried]| chosen(&service, &all, tried);
        assert_eq!(after(&[tried(0, true)]).as_deref(), Some("127.0.0.1:2"));
        let both = [tried(0, true), tried(1, false)];
        assert_eq!(after(&both).as_deref(), Some("127.0.0.1:1"));
        assert_eq!(after(&[tried(0, false), tried(1, false)]), None);
    }

    #[test]
    fn servers_are_called_that_say_that_they_serve() {
        let service = Service::new(Vec::new(), &Limits::default());
        let all = [server(1, true), server(2, true)];
        assert!(chosen(&service, &all, &[]).unwrap().ends_with('?'));
        all[0].set_health(Health::Unfit);
        assert_eq!(chosen(&service, &all, &[]).as_deref(), Some("127.0.0.1:2?"));
        all[1].set_health(Health::Fit);
        assert_eq!(chosen(&service, &all, &[]).as_deref(), Some("127.0.0.1:2"));
        all[1].set_health(Health::Unfit);
        assert!(
            chosen(&service, &all, &[])
                .unwrap()
                .contains("does not serve")
        );
    }
}
