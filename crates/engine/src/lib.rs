//! The load engine: who sends what, when, and what came of it.
//!
//! A [`Plan`] is parsed once and valid by construction. [`run`] gives it to N workers, one per
//! thread, which share nothing: each owns its connections, their sockets and a recorder. What they bring
//! home is added up to an [`Outcome`].
//!
//! ```no_run
//! use trilane_engine::{Control, Options, Plan, run};
//!
//! let options = Options { urls: vec!["http://127.0.0.1:8080/hello".into()], ..Options::default() };
//! let plan = Plan::new(&options)?;
//! let outcome = run(&plan, &Control::new())?;
//! println!("{:.0} requests/s", outcome.rate.requests_per_s);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod allowance;
mod announced;
mod arrivals;
mod asked;
mod assemble;
mod changing;
mod checks;
mod cluster;
mod concurrency;
mod connections;
mod context;
mod control;
mod cost;
mod deadlines;
mod events;
mod exchanges;
mod failure;
mod gate;
mod grpc;
mod io;
mod latency;
mod link;
mod listed;
mod neighbours;
mod options;
mod origin;
mod outcome;
mod phases;
mod plan;
mod pool;
mod pools;
mod prepare;
mod ramp;
mod record;
mod refill;
mod route;
mod run;
mod scenario;
mod schedule;
mod second;
mod shared;
#[cfg(test)]
mod simulation;
mod slowest;
mod stage;
mod standstill;
mod sums;
mod sys;
mod tally;
mod tcp;
mod template;
mod told;
mod turns;
mod udp;
mod validity;
mod websocket;
mod windows;
mod worker;

pub use allowance::InFlightStageOut;
pub use asked::Asked;
pub use assemble::{PROFILE, REVISION, VERSION_LINE, build};
pub use checks::bare_ipv6;
pub use cluster::{Gather, Member, Share, WorkerOut, run_share};
pub use connections::ConnectionsOut;
pub use control::{Control, Progress};
pub use events::{EventFormat, EventsAsked};
pub use failure::{FailureKind, Failures};
pub use gate::{Checked, Gate, GateError};
pub use grpc::{Answers, Call, CallMode, CallOptions, HalfClose, Message, Protocol, Response};
pub use latency::Summary;
pub use listed::Listed;
pub use options::{
    Arrivals, InFlightStage, Options, PemFile, ProxyProtocol, RateStage, TlsVersion, Version,
};
pub use origin::OriginOut;
pub use outcome::{
    BodiesOut, Bytes, Code, Cost, Distribution, EarlyDataOut, EventsOut, Grpc, HandshakesOut,
    Latency, MeasuredOut, MethodOut, MostOut, Outcome, PhasesOut, PlanOut, Rate, Reason, Requests,
    StageOut, StreamsOut, Target, Validity, Verdict, WebSocketOut, WindowOut,
};
pub use phases::RequestPhasesOut;
pub use plan::{Plan, PlanError};
pub use prepare::check_metadata;
pub use route::{Proxy, Route};
pub use run::{RunError, run, run_watched};
pub use scenario::{Check, Flow, Scenario, ScenarioOut, Source, Step, StepOut, Take, Test};
pub use second::{MessagesOut, Quantiles, SecondOut, Watch};
pub use slowest::Slow;
pub use turns::{Turns, TurnsOut};
pub use websocket::{WebSocket, WebSocketMode};
pub use windows::BacklogOut;
