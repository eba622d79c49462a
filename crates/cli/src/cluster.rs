//! `trilane load` on several machines. The Python command finds the machines, starts this program on each and carries
//! messages between them; what they do is here, in three hidden modes: `--cluster-describe` says what a command line
//! needs, `--cluster-share` carries out one machine's share of it, and `--cluster-gather` adds up what all send and
//! ends as `load` does on one machine.

mod describe;
mod frames;
mod gather;
mod share;

use std::path::PathBuf;

use clap::Args;
use trilane_engine::PlanError;

use crate::load::LoadArgs;

pub(crate) use self::describe::describe;
pub(crate) use self::gather::{Members, gather, ignore_signals, members};
pub(crate) use self::share::share;

const CLUSTER: &str = "Cluster";

#[derive(Args)]
pub(crate) struct ClusterArgs {
    /// Load from several machines at once, the workers of the Dask cluster whose scheduler is there, such as
    /// tcp://10.0.0.1:8786: connections, rate and requests are dealt over their threads as over those of one machine,
    /// all begin at one time, and the report is one for all. -t is for all together [default: their processors]
    #[arg(long, value_name = "ADDRESS", help_heading = CLUSTER)]
    pub(crate) cluster: Option<String>,
    /// Machines to load from [default: all workers]
    #[arg(long, value_name = "N", requires = "cluster", value_parser = clap::value_parser!(u32).range(1..), help_heading = CLUSTER)]
    workers: Option<u32>,
    /// Only workers with this label, as trilane cluster worker --label gives it; repeatable, for all of them
    #[arg(long, value_name = "NAME", requires = "cluster", help_heading = CLUSTER)]
    worker_label: Vec<String>,
    /// Authorities of the scheduler's certificate, PEM: the connections of a tls:// cluster
    #[arg(long, value_name = "FILE", requires = "cluster", help_heading = CLUSTER)]
    cluster_tls_ca: Option<PathBuf>,
    /// Certificate for the scheduler, PEM
    #[arg(long, value_name = "FILE", requires = "cluster", help_heading = CLUSTER)]
    cluster_tls_cert: Option<PathBuf>,
    /// Key of that certificate, PEM
    #[arg(long, value_name = "FILE", requires = "cluster", help_heading = CLUSTER)]
    cluster_tls_key: Option<PathBuf>,
    /// UDP port of the clock that workers compare theirs with, at the scheduler [default: any]
    #[arg(long, value_name = "PORT", requires = "cluster", help_heading = CLUSTER)]
    cluster_clock_port: Option<u16>,

    /// Say what the command line needs on machines with so many threads together
    #[arg(long, hide = true, value_name = "THREADS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    cluster_describe: Option<u32>,
    /// Carry out a share of the run, which stdin says in its first line
    #[arg(long, hide = true, conflicts_with_all = ["cluster", "cluster_describe"])]
    cluster_share: bool,
    /// Add up what the machines of the run send
    #[arg(long, hide = true, conflicts_with_all = ["cluster", "cluster_describe", "cluster_share"])]
    cluster_gather: bool,
}

/// What is asked of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    /// A run on this machine.
    Alone,
    /// A run on several, which the Python command starts.
    Several,
    Describe(usize),
    Share,
    Gather,
}

impl ClusterArgs {
    pub(crate) fn mode(&self) -> Mode {
        match (
            &self.cluster,
            self.cluster_describe,
            self.cluster_share,
            self.cluster_gather,
        ) {
            (_, Some(threads), _, _) => Mode::Describe(threads as usize),
            (_, _, true, _) => Mode::Share,
            (_, _, _, true) => Mode::Gather,
            (Some(_), ..) => Mode::Several,
            _ => Mode::Alone,
        }
    }
}

/// What to do about `--cluster` where the Python command is not there.
pub(crate) const NATIVE_ALONE: &str = "--cluster: this is the native program alone, which knows no clusters: install the \
     whole command (pip install 'trilane[cluster]')";

/// Refuses what several machines cannot do together.
pub(crate) fn check(arguments: &LoadArgs) -> Result<(), PlanError> {
    let keys = std::env::var_os("SSLKEYLOGFILE").is_some_and(|name| !name.is_empty());
    let refused = [
        (
            arguments.is_search(),
            "--search: on several machines one rate is run, and not searched for: leave it out, or leave --cluster out",
        ),
        (
            arguments.grpc.show,
            "--show makes one call, from this machine: leave --cluster out",
        ),
        (
            arguments.reads_stdin(),
            "--body @-: several machines cannot read one stdin: write it to a file and type --body @FILE",
        ),
        (
            arguments.watches_server(),
            "--server-pid: the machines of a cluster do not see the server's processes: leave it out",
        ),
        (
            keys,
            "SSLKEYLOGFILE: the secrets of connections would lie on other machines: unset it",
        ),
    ];
    let first = refused.iter().find(|(is_asked, _)| *is_asked);
    first.map_or(Ok(()), |(_, why)| Err(PlanError::Usage((*why).to_owned())))
}
