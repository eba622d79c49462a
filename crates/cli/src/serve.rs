//! `trilane serve`: the embedded server as a command.

use clap::{Args, ValueEnum};
use trilane_serve::{Config, Congestion};

use crate::{code_of, forwarding::ForwardArgs, listen::ListenArgs, tell};

/// Serve HTTP/1.1, HTTP/2 and HTTP/3 from one handler.
///
/// GET a path that is not there, and the answer lists what is: bytes, delays, echo, books, linked
/// pages, and the library service over gRPC, gRPC-Web, REST by transcoding (/v1/...), server-sent
/// events and WebSocket.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    forward: ForwardArgs,
    /// Take early data (0-RTT): safe methods are answered before the handshake is done, others with 425
    /// (RFC 8470), as early data can be replayed
    #[arg(long)]
    early_data: bool,
    /// Congestion control of our side over HTTP/3, and over TCP where the kernel allows it
    #[arg(long, value_enum, default_value_t = Controller::Cubic, value_name = "cubic|reno|bbr", hide_possible_values = true)]
    quic_congestion: Controller,
    /// Have each client of HTTP/3 prove its address by a Retry packet first
    #[arg(long)]
    retry: bool,
    /// Send a chain of certificates of so many bytes, made up by one that clients do not need: shows
    /// what a long chain costs, of which QUIC may send three times what has come in
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    chain_size: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Controller {
    Cubic,
    Reno,
    Bbr,
}

/// Runs the command until it is told to stop; returns the exit code.
pub(crate) fn run(args: &ServeArgs) -> u8 {
    let (forwarding, reread) = match args.forward.forwarding(false) {
        Ok(Some(forwarded)) => (Some(forwarded.forwarding), Some(forwarded.reread)),
        Ok(None) => (None, None),
        Err(error) => {
            tell(format_args!("trilane serve: {error}"));
            return code_of(&error);
        }
    };
    let config = Config {
        forwarding,
        warn: Some(|text| tell(format_args!("trilane serve: warning: {text}"))),
        early_data: args.early_data,
        quic_congestion: match args.quic_congestion {
            Controller::Cubic => Congestion::Cubic,
            Controller::Reno => Congestion::Reno,
            Controller::Bbr => Congestion::Bbr,
        },
        same_over_tcp: true,
        retry: args.retry,
        chain_size: args.chain_size.map(|size| size as usize),
        ..args.listen.config()
    };
    let served = args.listen.serve("trilane serve", "/hello", config, reread);
    match served {
        Ok(()) => 0,
        Err(error) => {
            tell(format_args!("trilane serve: {error}"));
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use crate::listen::Format;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: ServeArgs,
    }

    fn parse(flags: &[&str]) -> Result<ServeArgs, clap::Error> {
        Command::try_parse_from([&["serve"], flags].concat()).map(|command| command.args)
    }

    #[test]
    fn flags_are_read() {
        let args = parse(&[
            "-t",
            "2",
            "--port",
            "0",
            "--tls-port",
            "9443",
            "--cpu",
            "0,2-3",
            "--for",
            "1.5s",
            "--name",
            "a.example",
            "--name",
            "b.example",
            "--format",
            "json",
        ])
        .unwrap();
        assert_eq!(
            (args.listen.threads, args.listen.port, args.listen.tls_port),
            (2, 0, 9443)
        );
        assert_eq!(args.listen.cpu.unwrap().0, [0, 2, 3]);
        assert_eq!(args.listen.duration, Some(Duration::from_millis(1500)));
        assert_eq!(args.listen.name, ["a.example", "b.example"]);
        assert_eq!(args.listen.format, Format::Json);
    }

    #[test]
    fn wrong_use_exits_with_2() {
        for wrong in [
            &["--port", "70000"][..],
            &["-t", "0"],
            &["--cpu", "x"],
            &["--for", "soon"],
            &["--cert", "a.pem"],
            &["--key", "a.pem"],
            &["--bind", "localhost"],
            &["--h2-streams", "0"],
            &["--keepalive-requests", "0"],
            &["--quic-congestion", "vegas"],
            &["--chain-size", "0"],
            &["--format", "xml"],
            &["--unknown"],
        ] {
            let error = parse(wrong).err().unwrap();
            assert_eq!(error.exit_code(), 2, "{wrong:?}");
        }
    }

    #[test]
    fn a_port_in_use_is_a_plain_failure() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port().to_string();
        assert_eq!(run(&parse(&["--port", &port]).unwrap()), 1);
    }
}
