//! Fuzz targets.
//!
//! `parsers` are fed bytes as a peer would send them; `connections` are driven by lists of operations,
//! of the caller and of the peer, beside a model of what the caller may expect. Each target is a
//! function of its input alone, so that libFuzzer (`make fuzz`), the property test in `tests` and the
//! replay of inputs that were found once run the same.

mod checker;
mod connections;
mod input;
mod parsers;
mod requests;

/// A function that panics where an input shows a mistake.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What `make fuzz TARGET=…` calls it.
    pub name: &'static str,
    /// Runs one input.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    of("h1", parsers::h1::target),
    of("h2", parsers::h2::target),
    of("h3", parsers::h3::target),
    of("hpack", parsers::hpack::target),
    of("qpack", parsers::qpack::target),
    of("grpc_frame", parsers::grpc_frame::target),
    of("grpc_reflection", parsers::grpc_reflection::target),
    of("transcode", parsers::transcode::target),
    of("websocket", parsers::websocket::target),
    of("h1_connection", connections::h1::target),
    of("h2_connection", connections::h2::target),
    of("h3_connection", connections::h3::target),
    of("stream", connections::stream::target),
];

const fn of(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}
