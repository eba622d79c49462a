//! Streams over WebSocket, with tungstenite's client.

use futures_util::{SinkExt, StreamExt};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{
        Message,
        protocol::{Role, frame::coding::CloseCode},
    },
};

use crate::common::{Client, LONG, Target, run, start, start_with, tls};

trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

type Socket = WebSocketStream<Box<dyn Io>>;

/// Every way to a WebSocket, as in `common::VERSIONS`.
const WAYS: [&str; 4] = ["h1", "h1s", "h2c", "h2"];

async fn open(target: &Target, way: &str, path: &str) -> Socket {
    let addresses = target.server.addresses();
    let io: Box<dyn Io> = match way {
        "h1" => Box::new(TcpStream::connect(addresses.http).await.unwrap()),
        "h1s" => Box::new(tls(target, addresses.https, b"http/1.1").await),
        _ => return extended_connect(target, way, path).await,
    };
    let (socket, response) = client_async(format!("ws://localhost{path}"), io)
        .await
        .unwrap();
    assert_eq!(response.status(), 101, "{way}");
    socket
}

/// RFC 8441.
async fn extended_connect(target: &Target, way: &str, path: &str) -> Socket {
    let mut client = Client::connect(target, way).await;
    // Until the server's settings are there, the client must not ask.
    client.get("/hello").await;
    let Client::H2(mut requests, origin) = client else {
        panic!("{way} is not HTTP/2");
    };
    let request = Request::connect(format!("{origin}{path}"))
        .extension(hyper::ext::Protocol::from_static("websocket"))
        .header("sec-websocket-version", "13")
        .body(Full::default())
        .unwrap();
    let response = requests.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200, "{way}");
    let upgraded = hyper::upgrade::on(response).await.unwrap();
    // The connection ends with its last handle.
    tokio::spawn(async move {
        let _requests = requests;
        std::future::pending::<()>().await;
    });
    let io: Box<dyn Io> = Box::new(TokioIo::new(upgraded));
    WebSocketStream::from_raw_socket(io, Role::Client, None).await
}

async fn say(socket: &mut Socket, text: &str) {
    socket.send(Message::text(text)).await.unwrap();
}

/// The next message in JSON.
async fn hear(socket: &mut Socket) -> Value {
    loop {
        match socket.next().await.unwrap().unwrap() {
            Message::Text(text) => return serde_json::from_str(&text).unwrap(),
            Message::Ping(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// How it was closed.
async fn end(socket: &mut Socket) -> (CloseCode, String) {
    loop {
        match socket.next().await.unwrap().unwrap() {
            Message::Close(Some(frame)) => return (frame.code, frame.reason.to_string()),
            Message::Ping(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn look_ups_are_a_conversation() {
    let target = start();
    run(async {
        for way in WAYS {
            let mut socket = open(&target, way, "/v1/books:lookUp").await;
            for number in [9, 1, 100] {
                let name = format!("shelves/3/books/{number}");
                say(&mut socket, &format!(r#"{{"name":"{name}"}}"#)).await;
                assert_eq!(hear(&mut socket).await["name"], name, "{way}");
            }
            say(&mut socket, r#"{"name":"shelves/3/books/999"}"#).await;
            let (code, reason) = end(&mut socket).await;
            assert_eq!(code, CloseCode::Error, "{way}");
            assert!(reason.contains("shelves/3/books/999"), "{way} {reason}");
            assert!(socket.next().await.is_none(), "{way}");
        }
    });
}

#[test]
fn many_messages_may_be_on_the_way() {
    let target = start();
    run(async {
        for way in WAYS {
            let socket = open(&target, way, "/v1/books:lookUp").await;
            let (mut sink, mut source) = socket.split();
            let sending = async {
                for number in 0..1000 {
                    let text = format!(r#"{{"name":"shelves/3/books/{}"}}"#, number % 100 + 1);
                    sink.send(Message::text(text)).await.unwrap();
                }
            };
            let receiving = async {
                for number in 0..1000 {
                    let message = source.next().await.unwrap().unwrap();
                    let text = message.into_text().unwrap();
                    let name = format!("\"shelves/3/books/{}\"", number % 100 + 1);
                    assert!(text.contains(&name), "{way} {text}");
                }
            };
            tokio::join!(sending, receiving);
        }
    });
}

#[test]
fn what_is_no_message_ends_the_conversation() {
    let target = start();
    run(async {
        for (sent, code, word) in [
            (
                Message::text(r#"{"nme":"x"}"#),
                CloseCode::Unsupported,
                "nme",
            ),
            (Message::text("{"), CloseCode::Unsupported, ""),
            (Message::text(""), CloseCode::Unsupported, "shelves/"),
            (Message::binary(vec![1]), CloseCode::Unsupported, "text"),
            (
                Message::text("x".repeat((4 << 20) + 1)),
                CloseCode::Size,
                "4 MiB",
            ),
        ] {
            let mut socket = open(&target, "h1", "/v1/books:lookUp").await;
            // The server may have left before all of it is written.
            let _ = socket.send(sent.clone()).await;
            let (got, reason) = end(&mut socket).await;
            assert_eq!(got, code, "{reason}");
            assert!(reason.contains(word), "{reason}");
        }
    });
}

#[test]
fn watching_takes_its_message_from_the_address() {
    let target = start();
    run(async {
        for way in WAYS {
            let mut socket = open(&target, way, "/v1/shelves/2/books:watch?count=120").await;
            for number in 0..120 {
                let name = format!("shelves/2/books/{}", number % 100 + 1);
                assert_eq!(hear(&mut socket).await["book"]["name"], name, "{way}");
            }
            assert_eq!(
                end(&mut socket).await,
                (CloseCode::Normal, String::new()),
                "{way}"
            );
            let mut socket = open(&target, way, "/v1/shelves/77/books:watch").await;
            let (code, reason) = end(&mut socket).await;
            assert_eq!(code, CloseCode::Error, "{way}");
            assert!(reason.contains("shelves/77"), "{way} {reason}");
        }
    });
}

#[test]
fn an_empty_message_ends_an_import() {
    let target = start();
    run(async {
        for way in WAYS {
            let mut socket = open(&target, way, "/v1/books:import").await;
            for _ in 0..5 {
                say(&mut socket, r#"{"parent":"shelves/9","book":{}}"#).await;
            }
            say(&mut socket, "").await;
            assert_eq!(hear(&mut socket).await["created"], 5, "{way}");
            assert_eq!(end(&mut socket).await.0, CloseCode::Normal, "{way}");
        }
    });
}

#[test]
fn handshakes_that_are_none_are_refused() {
    let target = start();
    run(async {
        let upgrade = |path: &str| {
            Request::get(path)
                .header("connection", "keep-alive, Upgrade")
                .header("upgrade", "WebSocket")
        };
        let mut client = Client::connect(&target, "h1").await;
        let answer = client.send(upgrade("/v1/books:lookUp"), "").await;
        assert_eq!(answer.status, 400);
        assert_eq!(answer.field("sec-websocket-version"), "13");
        let no_key = upgrade("/v1/books:lookUp").header("sec-websocket-version", "13");
        let answer = client.send(no_key, "").await;
        assert!(answer.json()["message"].as_str().unwrap().contains("key"));
        // Elsewhere the wish is ignored (RFC 9110 section 7.8).
        let book = client.send(upgrade("/v1/shelves/1/books/1"), "").await;
        assert_eq!(book.status, 200);

        let mut client = Client::connect(&target, "h2c").await;
        client.get("/hello").await;
        let Client::H2(mut requests, origin) = client else {
            panic!("h2c is HTTP/2");
        };
        let request = Request::connect(format!("{origin}/v1/shelves/1/books/1"))
            .extension(hyper::ext::Protocol::from_static("websocket"))
            .body(Full::default())
            .unwrap();
        let response = requests.send_request(request).await.unwrap();
        assert_eq!(response.status(), 405);
        response.into_body().collect().await.unwrap();
    });
}

#[test]
fn stopping_closes_conversations() {
    for way in WAYS {
        let target = start();
        run(async {
            let mut socket = open(&target, way, "/v1/books:lookUp").await;
            say(&mut socket, r#"{"name":"shelves/3/books/1"}"#).await;
            hear(&mut socket).await;
            let stopping = tokio::task::spawn_blocking(move || target.server.stop(LONG));
            let (code, reason) = end(&mut socket).await;
            assert_eq!(code, CloseCode::Away, "{way} {reason}");
            drop(socket);
            stopping.await.unwrap();
        });
    }
}

#[test]
fn the_last_request_of_a_connection_may_open_one() {
    let target = start_with(|config| config.keepalive_requests = Some(1));
    run(async {
        for way in ["h1", "h1s"] {
            let mut socket = open(&target, way, "/v1/books:lookUp").await;
            for number in 1..4 {
                let name = format!("shelves/3/books/{number}");
                say(&mut socket, &format!(r#"{{"name":"{name}"}}"#)).await;
                assert_eq!(hear(&mut socket).await["name"], name, "{way}");
            }
        }
    });
}

#[test]
fn messages_are_echoed() {
    let target = start();
    run(async {
        for way in WAYS {
            let mut socket = open(&target, way, "/echo").await;
            for message in [
                Message::text("grüße"),
                Message::binary(vec![0xff; 70_000]),
                Message::text(""),
            ] {
                socket.send(message.clone()).await.unwrap();
                assert_eq!(socket.next().await.unwrap().unwrap(), message, "{way}");
            }
            socket.close(None).await.unwrap();
            assert!(matches!(
                socket.next().await,
                Some(Ok(Message::Close(None)))
            ));
            assert!(socket.next().await.is_none(), "{way}");
        }
    });
}
