//! The flags of `trilane load` about WebSocket sessions.

use clap::{Args, ValueEnum};
use trilane_engine::{WebSocket, WebSocketMode};
use trilane_units as units;

const WEBSOCKET: &str = "WebSocket (ws:// or wss://; each request is a session, by --h2 and --h2c on a stream of HTTP/2)";

#[derive(Args)]
pub(crate) struct WebSocketArgs {
    /// What a session does: echo sends the message of -b (hello world) again and again and awaits each
    /// back; subscribe sends it once, where there is one, and measures what comes as --events messages
    /// [default: echo]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "echo|subscribe", help_heading = WEBSOCKET)]
    ws: Option<Mode>,
    /// echo: messages that each session sends [default: 100]; subscribe: messages of the server after
    /// which a session is closed [default: the server closes it]
    #[arg(long, value_name = "N", value_parser = units::count, help_heading = WEBSOCKET)]
    ws_messages: Option<u64>,
    /// echo: messages that may wait for their echo at a time [default: 1]
    #[arg(long, value_name = "N", value_parser = units::count, help_heading = WEBSOCKET)]
    ws_window: Option<u64>,
    /// Send -b as a binary message, and not as text
    #[arg(long, help_heading = WEBSOCKET)]
    ws_binary: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    Echo,
    Subscribe,
}

impl WebSocketArgs {
    /// Whether what comes in a session is measured as events.
    pub(crate) fn subscribes(&self) -> bool {
        self.ws == Some(Mode::Subscribe)
    }

    /// What the flags ask of sessions; none where none was given.
    pub(crate) fn asked(&self) -> Option<WebSocket> {
        let is_given = self.ws.is_some()
            || self.ws_messages.is_some()
            || self.ws_window.is_some()
            || self.ws_binary;
        is_given.then(|| WebSocket {
            mode: match self.ws {
                None | Some(Mode::Echo) => WebSocketMode::Echo,
                Some(Mode::Subscribe) => WebSocketMode::Subscribe,
            },
            messages: self.ws_messages,
            window: self.ws_window.map_or(1, |window| window as usize),
            binary: self.ws_binary,
        })
    }
}
