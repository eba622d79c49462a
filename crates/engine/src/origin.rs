//! The origins of a run (RFC 6454): where the requests to each go, and over which connections.

mod counts;

use std::collections::HashMap;
use std::sync::Arc;

use trilane_wire::{Refused, Request};
use url::Url;

use crate::listed::Listed;
use crate::options::{Options, Version};
use crate::plan::{Plan, PlanError, Transport, usage};
use crate::refill::Channel;
use crate::route::Route;

pub use counts::OriginOut;
pub(crate) use counts::{OriginCounts, OriginReport};

/// Origins of one run: each has a distribution of its own in every worker.
const MOST: usize = 100;

/// An origin that requests go to.
#[derive(Debug)]
pub(crate) struct OriginPlan {
    /// Scheme, host and, unless it is the scheme's default, port.
    pub(crate) name: String,
    pub(crate) route: Route,
    pub(crate) transport: Transport,
    /// [`Request::section_size`] of the smallest of its requests.
    pub(crate) smallest_section: u64,
}

/// The origins of the requests that take turns.
#[derive(Debug)]
pub(crate) struct Assignment {
    /// The first URL of each origin, and the request that it is of.
    pub(crate) firsts: Vec<(Url, usize)>,
    /// For each request which of the origins it goes to.
    pub(crate) of: Arc<[u32]>,
}

impl Assignment {
    /// That of requests to `urls`, in their order.
    pub(crate) fn new<'u>(urls: impl Iterator<Item = &'u Url>) -> Self {
        let mut firsts = Vec::new();
        let mut known = HashMap::new();
        let of = urls.enumerate().map(|(request, url)| {
            *known.entry(url.origin()).or_insert_with(|| {
                firsts.push((url.clone(), request));
                firsts.len() as u32 - 1
            })
        });
        let of = of.collect();
        Self { firsts, of }
    }

    /// The URL of the first request.
    pub(crate) fn first(&self) -> &Url {
        &self.firsts[0].0
    }

    /// [`Request::section_size`] of the smallest of the requests to each origin.
    pub(crate) fn smallest_sections(&self, requests: &[Request]) -> Vec<u64> {
        let mut smallest = vec![u64::MAX; self.firsts.len()];
        for (&origin, request) in self.of.iter().zip(requests) {
            let smallest = &mut smallest[origin as usize];
            *smallest = (*smallest).min(request.section_size());
        }
        smallest
    }

    /// Refuses what means one origin, where there are several; `version` says which version each URL is
    /// requested over.
    pub(crate) fn check(
        &self,
        options: &Options,
        listed: &[Listed],
        version: impl Fn(&Url) -> Result<Option<Version>, PlanError>,
    ) -> Result<(), PlanError> {
        let [(first, _), (second, _), ..] = &self.firsts[..] else {
            return Ok(());
        };
        let count = self.firsts.len();
        if count > MOST {
            return usage(format!(
                "the requests go to {count} origins, and one run tells {MOST} apart: leave some out"
            ));
        }
        let connections = options.connections.saturating_mul(count);
        if connections > 1_000_000 {
            return usage(format!(
                "-c {} to each of {count} origins are {connections} connections, more than 1000000: lower -c",
                options.connections
            ));
        }
        let expected = version(first)?;
        for (url, request) in &self.firsts {
            let found = version(url).map_err(|error| listed[*request].place(error))?;
            if found != expected {
                let way = match options.call {
                    Some(_) => "",
                    None => "type --h1, which both are spoken over, or ",
                };
                return Err(listed[*request].place(PlanError::Usage(format!(
                    "{first} and {url} in one run: without a flag each scheme has a version of its own, and a run has one: {way}run load once for each"
                ))));
            }
        }
        let has_host = options.fields.iter().any(|text| {
            let name = text.split_once(':').map_or("", |(name, _)| name);
            name.trim_end().eq_ignore_ascii_case("host")
        });
        let names_one = options.sni.is_some()
            && self
                .firsts
                .iter()
                .any(|(url, _)| url.host_str() != first.host_str());
        for (flag, given, why) in [
            (
                "--rate-per-connection",
                options.rate_per_connection.is_some(),
                "gives each the same number of requests, whatever their weights say: type -R for all together",
            ),
            (
                "--stages-in-flight",
                !options.stages_in_flight.is_empty(),
                "divides a number between the connections to one: type --stages for a rate that changes, or run load once for each",
            ),
            (
                "--sni",
                names_one,
                "names one server, and these have several names: leave --sni out",
            ),
            (
                "-H Host",
                has_host,
                "says the same to each: leave it out, or give each request of a file a field of its own",
            ),
        ] {
            if given {
                return usage(format!(
                    "{flag} with requests to several origins ({} and {}): it {why}",
                    name(first),
                    name(second)
                ));
            }
        }
        Ok(())
    }
}

/// The origin of `url`, as it is written.
pub(crate) fn name(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// What part of all requests an origin gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) share: f64,
    /// How far into the time between two of its requests the first one is, so that the origins take turns.
    pub(crate) phase: f64,
}

impl Plan {
    /// Whether requests go to several origins.
    pub(crate) fn has_several_origins(&self) -> bool {
        self.origins.len() > 1
    }

    /// The origin that a request of the plan goes to.
    pub(crate) fn origin_of(&self, request: u32) -> usize {
        self.origin_of[request as usize] as usize
    }

    /// For each origin the order in which its requests take turns.
    pub(crate) fn turns_at_each(&self) -> Vec<Arc<[u32]>> {
        let at = |origin: usize| {
            let turns = self.turns.iter().copied();
            turns
                .filter(|&request| self.origin_of(request) == origin)
                .collect()
        };
        (0..self.origins.len()).map(at).collect()
    }

    /// What part of all requests each origin gets.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let all = self.turns.len() as f64;
        let part = |origin: usize| {
            let its_own = |&&request: &&u32| self.origin_of(request) == origin;
            let count = self.turns.iter().filter(its_own).count() as f64;
            let first = self.turns.iter().position(|turn| its_own(&turn));
            let share = count / all;
            Part {
                share,
                phase: first.unwrap_or(0) as f64 * share,
            }
        };
        (0..self.origins.len()).map(part).collect()
    }

    /// Why the peer of a connection can never be sent any of the requests to its origin: by the field sections
    /// that it accepts, or as they are sessions.
    #[inline]
    pub(crate) fn misfit(&self, origin: usize, channel: &impl Channel) -> Option<Refused> {
        if self.websocket.is_some() && channel.refuses_sessions() {
            return Some(Refused::NoConnectProtocol);
        }
        let size = self.origins[origin].smallest_section;
        let limit = channel.largest_section()?;
        (size > limit).then_some(Refused::TooLarge { size, limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URLS: [&str; 4] = [
        "https://a.example/1",
        "https://b.example:444/",
        "https://a.example/2",
        "https://b.example/",
    ];

    fn options(urls: &[&str], weights: &[u32]) -> Options {
        Options {
            urls: urls.iter().map(|url| (*url).to_owned()).collect(),
            weights: weights.to_vec(),
            version: Some(Version::H2),
            ..Options::default()
        }
    }

    fn refusal(options: &Options) -> String {
        Plan::new(options).unwrap_err().to_string()
    }

    #[test]
    fn requests_know_their_origin_and_it_its_share() {
        let plan = Plan::new(&options(&URLS, &[3, 2, 1, 2])).unwrap();
        let names: Vec<_> = plan.origins.iter().map(|each| &*each.name).collect();
        let expected = [
            "https://a.example",
            "https://b.example:444",
            "https://b.example",
        ];
        assert_eq!(names, expected);
        assert_eq!(*plan.origin_of, [0, 1, 0, 2]);
        let ports: Vec<_> = plan.origins.iter().map(|each| each.route.port).collect();
        assert_eq!(ports, [443, 444, 443]);
        let shares: Vec<_> = plan.parts().iter().map(|part| part.share).collect();
        assert_eq!(shares, [0.5, 0.25, 0.25]);
        let at_each = plan.turns_at_each();
        let count =
            |origin: usize, request| at_each[origin].iter().filter(|&&it| it == request).count();
        assert_eq!((count(0, 0), count(0, 2), at_each[0].len()), (3, 1, 4));
        assert_eq!((*at_each[1] == [1, 1], *at_each[2] == [3, 3]), (true, true));
    }

    #[test]
    fn the_first_requests_to_each_origin_fall_between_those_to_others() {
        let plan = Plan::new(&options(&URLS[..2], &[])).unwrap();
        let phases: Vec<_> = plan.parts().iter().map(|part| part.phase).collect();
        // Two in turn: the second in the middle between two to the first.
        assert_eq!(phases, [0.0, 0.5]);
    }

    #[test]
    fn what_means_one_origin_is_refused_with_what_to_type() {
        let told = |change: &dyn Fn(&mut Options)| {
            let mut options = options(&URLS[..2], &[]);
            change(&mut options);
            refusal(&options)
        };
        let rate = told(&|o| o.rate_per_connection = Some(1.0));
        assert!(rate.starts_with("--rate-per-connection with requests to several origins (https://a.example and https://b.example:444)"), "{rate}");
        assert!(rate.contains("type -R"), "{rate}");
        assert!(told(&|o| o.sni = Some("x".into())).contains("leave --sni out"));
        let host = told(&|o| o.fields = vec!["host: x".into()]);
        assert!(host.contains("-H Host"), "{host}");
        assert!(told(&|o| o.connections = 500_001).contains("lower -c"));
        // One name on two ports.
        let mut same = options(&["https://a.example/", "https://a.example:1/"], &[]);
        same.sni = Some("x".into());
        Plan::new(&same).unwrap();
        let many: Vec<_> = (1..=101)
            .map(|port| format!("https://a.example:{port}/"))
            .collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert!(refusal(&options(&many, &[])).contains("101 origins"));
    }

    #[test]
    fn schemes_mix_in_a_version_that_both_have() {
        let mut mixed = options(&["http://a.example/", "https://a.example/"], &[]);
        mixed.version = Some(Version::H1);
        let plan = Plan::new(&mixed).unwrap();
        let sealed = plan.origins.iter().map(|origin| match &origin.transport {
            Transport::Stream(config) => config.tls.is_some(),
            Transport::Quic(_) => true,
        });
        assert_eq!(sealed.collect::<Vec<_>>(), [false, true]);
        mixed.version = None;
        let told = refusal(&mixed);
        assert!(told.contains("type --h1"), "{told}");
        mixed.version = Some(Version::H2);
        assert!(refusal(&mixed).contains("--h2 needs TLS"));
    }
}
