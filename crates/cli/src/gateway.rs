//! `trilane gateway`: services of others over every binding.

use clap::Args;
use trilane_serve::Config;

use crate::{FAILED, OK, USAGE, code_of, forwarding::ForwardArgs, listen::ListenArgs, tell};

/// The flags of `trilane gateway`.
#[derive(Args, Clone, Debug)]
pub(crate) struct GatewayArgs {
    #[command(flatten)]
    forward: ForwardArgs,
    #[command(flatten)]
    listen: ListenArgs,
}

/// Runs the command until it is told to stop; returns the exit code.
pub(crate) fn run(args: &GatewayArgs) -> u8 {
    let failed = |error: &dyn std::fmt::Display, code| {
        tell(format_args!("trilane gateway: {error}"));
        code
    };
    let forwarded = match args.forward.forwarding(true) {
        Ok(Some(forwarded)) => forwarded,
        Ok(None) => {
            let missing =
                "where are the services? type for example --upstream grpc://127.0.0.1:50051";
            return failed(&missing, USAGE);
        }
        Err(error) => {
            return failed(&error, code_of(&error));
        }
    };
    if args.forward.is_unverified() {
        tell(
            "trilane gateway: warning: --upstream-insecure: no certificate is verified: whoever is between the gateway and \
             its upstream can read and change all of it",
        );
    }
    let config = Config {
        forwarding: Some(forwarded.forwarding),
        warn: Some(|text| tell(format_args!("trilane gateway: warning: {text}"))),
        ..args.listen.config()
    };
    let served = args
        .listen
        .serve("trilane gateway", "/", config, Some(forwarded.reread));
    match served {
        Ok(()) => OK,
        Err(error) => failed(&error, FAILED),
    }
}
