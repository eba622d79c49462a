//! Followers of a shelf: slow ones, and those that are there when the server stops.

use http::Request;
use tonic::Code;

use crate::{
    channel::{
        Channel, Library, WITH_TRAILERS,
        proto::{Book, UpdateBookRequest, WatchBooksRequest},
    },
    common::{Client, LONG, VERSIONS, run, start},
};

fn follow(shelf: u32) -> WatchBooksRequest {
    WatchBooksRequest {
        parent: format!("shelves/{shelf}"),
        follow: true,
        ..WatchBooksRequest::default()
    }
}

#[test]
fn a_slow_follower_is_sent_away() {
    let target = start();
    run(async {
        let channel = Channel::connect_with(&target, "h2c", |http2| {
            http2.initial_stream_window_size(1024);
        });
        let mut stream = Library::new(channel.await)
            .watch_books(follow(1))
            .await
            .unwrap()
            .into_inner();
        let mut library = Channel::library(&target, "h2c").await;
        let book = Book {
            name: "shelves/1/books/1".into(),
            title: "x".repeat(1000),
            ..Book::default()
        };
        for _ in 0..1000 {
            let update = UpdateBookRequest {
                book: Some(book.clone()),
                update_mask: None,
            };
            library.update_book(update).await.unwrap();
        }
        let mut count = 0;
        let status = loop {
            match stream.message().await {
                Ok(message) => count += usize::from(message.is_some()),
                Err(status) => break status,
            }
        };
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        assert!(status.message().contains("too slow"), "{status}");
        // The books, what was on the way, and what the server kept.
        assert!((100..900).contains(&count), "{count}");
    });
}

#[test]
fn followers_are_bounded_and_those_that_leave_make_room() {
    for version in ["h2c", "h3"] {
        let target = start();
        run(async {
            let mut streams = Vec::new();
            let mut full = None;
            // More than a connection carries.
            let mut channels = Vec::new();
            for _ in 0..3 {
                channels.push(Channel::library(&target, version).await);
            }
            while full.is_none() {
                let library = &mut channels[streams.len() / 400];
                match library.watch_books(follow(3)).await {
                    Ok(response) => streams.push(response.into_inner()),
                    Err(status) => full = Some(status),
                }
            }
            assert_eq!(full.unwrap().code(), Code::ResourceExhausted, "{version}");
            assert_eq!(streams.len(), 1000, "{version}");
            drop(streams);
            // Until the server has seen that they are gone.
            while let Err(status) = channels[0].watch_books(follow(3)).await {
                assert_eq!(status.code(), Code::ResourceExhausted, "{version}");
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        });
    }
}

#[test]
fn stopping_ends_what_would_go_on() {
    for version in WITH_TRAILERS {
        let target = start();
        run(async {
            let mut library = Channel::library(&target, version).await;
            let mut paused = follow(2);
            paused.interval = Some(prost_types::Duration {
                seconds: 3600,
                nanos: 0,
            });
            let mut streams = Vec::new();
            for request in [follow(1), paused] {
                streams.push(library.watch_books(request).await.unwrap().into_inner());
            }
            streams[1].message().await.unwrap().unwrap();
            let stopping = tokio::task::spawn_blocking(move || target.server.stop(LONG));
            for mut stream in streams {
                let status = loop {
                    match stream.message().await {
                        Ok(message) => assert!(message.is_some(), "{version} ended well"),
                        Err(status) => break status,
                    }
                };
                assert_eq!(status.code(), Code::Unavailable, "{version} {status}");
            }
            // Connections without a request end at once; nothing has to wait for the grace.
            stopping.await.unwrap();
        });
    }
}

#[test]
fn stopping_ends_lines_with_a_status() {
    for version in VERSIONS {
        let target = start();
        run(async {
            let mut client = Client::connect(&target, version).await;
            let follow = Request::get("/v1/shelves/1/books:watch?follow=true");
            let (answer, _) = tokio::join!(client.send(follow, ""), async {
                while target.server.requests() == 0 {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
                tokio::task::spawn_blocking(move || target.server.stop(LONG)).await
            });
            let text = String::from_utf8(answer.body.to_vec()).unwrap();
            let last = text.lines().last().unwrap();
            assert!(
                last.starts_with("{\"error\":{\"code\":14,"),
                "{version} {last}"
            );
        });
    }
}
