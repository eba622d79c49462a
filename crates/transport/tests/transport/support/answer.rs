//! What the server of the tests says.

use bytes::{Buf, Bytes};

use super::{Server, ServerOptions, Stream};

/// Reads a request's content.
async fn content(stream: &mut Stream) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(mut piece)) = stream.recv_data().await {
        while piece.has_remaining() {
            let chunk = piece.chunk();
            body.extend_from_slice(chunk);
            let length = chunk.len();
            piece.advance(length);
        }
    }
    body
}

/// Answers as the path says.
pub(crate) fn server(options: ServerOptions) -> Server {
    Server::with_requests(options, answer)
}

pub(crate) async fn answer(request: http::Request<()>, mut stream: Stream) {
    let path = request.uri().path().to_owned();
    let response = http::Response::builder().header("x-path", &path);
    // The client may have gone away, which is not for a server to complain about.
    let _ = answer_path(&path, response, &mut stream).await;
}

async fn answer_path(
    path: &str,
    response: http::response::Builder,
    stream: &mut Stream,
) -> Result<(), h3::error::StreamError> {
    if let Some(size) = path.strip_prefix("/bytes/") {
        let size: usize = size.parse().unwrap();
        let head = response.header("content-length", size).body(()).unwrap();
        stream.send_response(head).await?;
        stream.send_data(Bytes::from(vec![b'x'; size])).await?;
        return stream.finish().await;
    }
    if path == "/hints" {
        for status in [100, 103] {
            let hints = http::Response::builder()
                .status(status)
                .header("link", "</a.css>");
            stream.send_response(hints.body(()).unwrap()).await?;
        }
    }
    if path == "/reset" || path == "/rejected" {
        if path == "/reset" {
            stream.send_response(response.body(()).unwrap()).await?;
            stream.send_data(Bytes::from_static(b"half")).await?;
            stream.stop_stream(h3::error::Code::H3_INTERNAL_ERROR);
        } else {
            stream.stop_stream(h3::error::Code::H3_REQUEST_REJECTED);
        }
        return Ok(());
    }
    if path == "/enough" {
        stream.stop_sending(h3::error::Code::H3_NO_ERROR);
        stream.send_response(response.body(()).unwrap()).await?;
        return stream.finish().await;
    }
    if path == "/echo" {
        // As it comes, so that both directions are under way together.
        stream.send_response(response.body(()).unwrap()).await?;
        while let Some(mut piece) = stream.recv_data().await? {
            let piece = piece.copy_to_bytes(piece.remaining());
            stream.send_data(piece).await?;
        }
        return stream.finish().await;
    }
    let body = content(stream).await;
    stream.send_response(response.body(()).unwrap()).await?;
    stream.send_data(Bytes::from(body)).await?;
    if path == "/trailers" {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("checksum", "1234".parse().unwrap());
        return stream.send_trailers(trailers).await;
    }
    stream.finish().await
}
