//! Connections over a pipe of known size, with a clock that moves when nothing else does.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    sync::watch,
    task::JoinHandle,
};

use super::{Builders, serve};
use crate::{
    Limits,
    app::{App, Hosts},
    caller::Share,
    connection::{ABSENCE, Connection, PATIENCE},
    library::Library,
    rest::Gateway,
    rpc::Rpc,
    services::Services,
    upstream::Upstreams,
    worker::Signal,
};

/// What the pipe holds in each direction, in place of the kernel's socket buffers.
const PIPE: usize = 64 << 10;
/// More than the server may take from a peer that reads nothing: a few of its buffers.
const TOO_MUCH: usize = 4 << 20;

/// The client's end of a connection, and its serving.
fn connect() -> (DuplexStream, JoinHandle<()>) {
    let (client, server) = duplex(PIPE);
    let (signal, watcher) = watch::channel(Signal::Serve);
    let services = Services::library();
    let upstreams = Upstreams::new(&[], Limits::default(), None).unwrap();
    let rpc = Rpc::new(Some(Library::new()), upstreams, &services, watcher.clone()).unwrap();
    let gateway = Gateway::new(rpc, services);
    let hosts = Hosts::new(&[], &[]).unwrap();
    let app = App::new(443, Arc::default(), gateway, false, hosts, None, None);
    let caller = app.count_connection(([127, 0, 0, 1], 1).into(), Share::default());
    let connection = Connection::new(caller, None, None, None);
    let serving = tokio::spawn(async move {
        let builders = Builders::new(100);
        serve(server, connection, app, builders, watcher).await;
        drop(signal);
    });
    (client, serving)
}

/// Writes the same again and again and reads nothing, until the server has ended the connection.
/// Returns how much it took.
async fn send_without_reading(client: &mut DuplexStream, piece: &[u8]) -> usize {
    let mut sent = 0;
    while let Ok(count) = client.write(piece).await {
        sent += count;
        assert!(sent < TOO_MUCH, "the server goes on reading");
    }
    sent
}

#[tokio::test(start_paused = true)]
async fn an_echo_that_nobody_reads_stops_its_sender() {
    for framing in [
        "content-length: 1000000000000",
        "transfer-encoding: chunked",
    ] {
        let (mut client, serving) = connect();
        let head = format!("POST /echo HTTP/1.1\r\nhost: localhost\r\n{framing}\r\n\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        let piece = format!("2000\r\n{}\r\n", "x".repeat(0x2000));
        send_without_reading(&mut client, piece.as_bytes()).await;
        serving.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn pipelined_requests_whose_answers_nobody_reads_stop_their_sender() {
    for request in [
        "GET /hello HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "HEAD /hello HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /status/204 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /bytes/1m HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\nhello",
    ] {
        let (mut client, serving) = connect();
        send_without_reading(&mut client, request.repeat(100).as_bytes()).await;
        serving.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_sender_that_was_stopped_goes_on_when_it_reads() {
    const LENGTH: usize = 8 << 20;
    let (mut client, serving) = connect();
    let head =
        format!("POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: {LENGTH}\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = tokio::io::split(client);
    let (stopped, is_stopped) = tokio::sync::oneshot::channel();
    let sending = tokio::spawn(async move {
        let piece = vec![b'x'; 0x2000];
        let mut stopped = Some(stopped);
        for _ in 0..LENGTH / piece.len() {
            let mut writing = std::pin::pin!(writer.write_all(&piece));
            // In paused time this is over when neither side can go on.
            let moment = Duration::from_millis(1);
            if tokio::time::timeout(moment, &mut writing).await.is_err() {
                stopped.take().map(|stopped| stopped.send(()));
                writing.await.unwrap();
            }
        }
        writer
    });
    is_stopped.await.unwrap();
    let mut heard = Vec::new();
    while heard.len() < LENGTH {
        assert_ne!(reader.read_buf(&mut heard).await.unwrap(), 0);
    }
    let mut writer = sending.await.unwrap();
    writer.shutdown().await.unwrap();
    reader.read_to_end(&mut heard).await.unwrap();
    let end = heard.windows(4).position(|at| at == b"\r\n\r\n").unwrap() + 4;
    assert_eq!(heard.len() - end, LENGTH);
    serving.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_leaves_while_a_later_request_is_worked_on() {
    let (mut client, _serving) = connect();
    let requests = ["/hello", "/delay/10m", "/hello"]
        .map(|path| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"))
        .concat();
    client.write_all(requests.as_bytes()).await.unwrap();
    let start = tokio::time::Instant::now();
    let mut heard = Vec::new();
    while !heard.ends_with(b"hello world") {
        assert_ne!(client.read_buf(&mut heard).await.unwrap(), 0);
    }
    assert!(start.elapsed() < Duration::from_secs(1), "in virtual time");
}

/// How long a connection is served whose peer waits for what comes in ten minutes, after `leave`.
async fn served_after(
    requests: &str,
    leave: impl AsyncFnOnce(DuplexStream) -> Option<DuplexStream>,
) -> Duration {
    let (mut client, serving) = connect();
    client.write_all(requests.as_bytes()).await.unwrap();
    // In paused time this is over when the server has nothing to do but wait.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let start = tokio::time::Instant::now();
    let _client = leave(client).await;
    serving.await.unwrap();
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_leaves_is_not_worked_for() {
    let wait = "GET /delay/10m HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let posted = "POST /delay/10m HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\nhi";
    let silent = "GET /v1/shelves/1/books:watch?follow=true HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for requests in [wait, posted, silent, &wait.repeat(20)] {
        let gone = served_after(requests, async |client| {
            drop(client);
            None
        });
        assert!(gone.await <= 2 * ABSENCE, "{requests}");
        // It reads on, but nothing could be sent to it.
        let half = served_after(requests, async |mut client| {
            client.shutdown().await.unwrap();
            Some(client)
        });
        assert!(half.await <= 2 * ABSENCE, "{requests}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_whose_leaving_cannot_be_seen_is_not_worked_for_long() {
    let wait = "GET /delay/10m HTTP/1.1\r\nhost: localhost\r\n\r\n";
    // More than is read ahead, and no more than fits there and into the pipe.
    let requests = wait.repeat(132 * 1024 / wait.len());
    let gone = served_after(&requests, async |client| {
        drop(client);
        None
    });
    assert!(gone.await <= 2 * PATIENCE);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_has_closed_its_direction_is_answered() {
    for path in ["/delay/1s", "/drip?bytes=1000&duration=5m"] {
        let (mut client, _serving) = connect();
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).await.unwrap();
        let text = String::from_utf8_lossy(&heard);
        assert!(text.starts_with("HTTP/1.1 200"), "{path}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn pipelined_answers_leave_in_one_write() -> io::Result<()> {
    let (mut client, _serving) = connect();
    let request = "GET /hello HTTP/1.1\r\nhost: localhost\r\n\r\n";
    client.write_all(request.repeat(10).as_bytes()).await?;
    let mut heard = vec![0; PIPE];
    // A read takes what one write has put there: the server runs on when the client waits again.
    let count = client.read(&mut heard).await?;
    let text = String::from_utf8_lossy(&heard[..count]);
    assert_eq!(text.matches("hello world").count(), 10, "{text}");
    Ok(())
}
