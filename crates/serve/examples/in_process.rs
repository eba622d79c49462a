//! A service of tonic in this process, served over HTTP/1.1, HTTP/2 and HTTP/3 as gRPC, gRPC-Web, JSON and
//! Protocol Buffers, without a second server:
//!
//! ```text
//! $ cargo run -p trilane-serve --example in_process
//! $ curl http://127.0.0.1:8080/v1/greetings/Ada
//! {"text":"Hello, Ada!"}
//! $ curl -H 'content-type: application/json' -d '{"name": "Ada"}' \
//!     http://127.0.0.1:8080/demo.greeter.v1.Greeter/Greet
//! {"text":"Hello, Ada!"}
//! $ curl http://127.0.0.1:8080/v1/greetings/Ada:again
//! $ grpcurl -plaintext -d '{"name": "Ada"}' 127.0.0.1:8080 demo.greeter.v1.Greeter/Greet
//! ```

use std::{error::Error, time::Duration};

use futures_util::stream::{self, BoxStream, StreamExt};
use tonic::{Request, Response, Status};
use trilane_serve::{Config, Forwarding, Schema, Server, Signals, StopWhen};

use proto::{
    GreetRequest, Greeting,
    greeter_server::{Greeter, GreeterServer},
};

/// What `tonic_prost_build` generates.
#[allow(missing_docs, unreachable_pub, clippy::all)]
mod proto {
    include!("../generated/example/demo.greeter.v1.rs");
}

/// The definition with all that it imports: where the rules for HTTP are.
const DESCRIPTORS: &[u8] = include_bytes!("../generated/example/greeter.fds");

struct Polite;

#[tonic::async_trait]
impl Greeter for Polite {
    type GreetAgainStream = BoxStream<'static, Result<Greeting, Status>>;

    async fn greet(&self, request: Request<GreetRequest>) -> Result<Response<Greeting>, Status> {
        let name = request.into_inner().name;
        if name.chars().any(char::is_control) {
            return Err(Status::invalid_argument("a name has no control characters"));
        }
        let text = format!("Hello, {name}!");
        Ok(Response::new(Greeting { text }))
    }

    async fn greet_again(
        &self,
        request: Request<GreetRequest>,
    ) -> Result<Response<Self::GreetAgainStream>, Status> {
        let name = request.into_inner().name;
        let greetings = (1..=3).map(move |count| {
            let text = format!("Hello for the {count}. time, {name}!");
            Ok(Greeting { text })
        });
        Ok(Response::new(stream::iter(greetings).boxed()))
    }
}

/// Serves the greeter as `config` says.
fn serve(config: Config) -> Result<Server, Box<dyn Error>> {
    let schema = Schema::from_descriptor_set("greeter.proto", DESCRIPTORS)?;
    let forwarding = Some(Forwarding::of_process(schema, GreeterServer::new(Polite)));
    Ok(Server::start(Config {
        forwarding,
        ..config
    })?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let signals = Signals::catch()?;
    let server = serve(Config::default())?;
    println!("{}v1/greetings/Ada", server.addresses().http_url());
    signals.wait(StopWhen::default(), None)?;
    server.stop(Duration::from_secs(5));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpStream,
    };

    use super::*;

    /// The response to a request of HTTP/1.1, as it comes.
    fn ask(server: &Server, head: &str, content: &str) -> String {
        let mut stream = TcpStream::connect(server.addresses().http).unwrap();
        let length = content.len();
        write!(
            stream,
            "{head} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{content}"
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    #[test]
    fn the_greeter_is_served_by_its_rules_and_its_names() {
        let state = tempfile::tempdir().unwrap();
        let server = serve(Config {
            port: 0,
            tls_port: 0,
            state: Some(state.path().to_owned()),
            ..Config::default()
        })
        .unwrap();
        let whole = ask(&server, "GET /v1/greetings/Ada", "");
        assert!(whole.starts_with("HTTP/1.1 200 OK\r\n"), "{whole}");
        assert!(
            whole.ends_with("\r\n\r\n{\"text\":\"Hello, Ada!\"}"),
            "{whole}"
        );
        let named = ask(
            &server,
            "POST /demo.greeter.v1.Greeter/Greet",
            "{\"name\":\"Bob\"}",
        );
        assert!(named.ends_with("{\"text\":\"Hello, Bob!\"}"), "{named}");
        let lines = ask(&server, "GET /v1/greetings/Ada:again", "");
        assert_eq!(lines.matches("time, Ada!").count(), 3, "{lines}");
        let refused = ask(&server, "GET /v1/greetings/a%07", "");
        assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
        assert!(refused.contains("no control characters"), "{refused}");
        let unknown = ask(&server, "GET /hello", "");
        assert!(unknown.starts_with("HTTP/1.1 404 "), "{unknown}");
    }
}
