//! A network read from words.

use std::collections::BTreeMap;
use std::time::Duration;

use trilane_units as units;

use super::{Bandwidth, Capacity, DirectionSpec, LossSpec, Profile, Spec};
use crate::MTU;

/// Settings of both directions, which one of them may have for itself.
const SETTINGS: [&str; 12] = [
    "jitter",
    "reorder",
    "rate",
    "trace",
    "queue",
    "codel",
    "loss",
    "burst",
    "pattern",
    "duplicate",
    "corrupt",
    "delay",
];
/// Settings without a value.
const WORDS: [&str; 2] = ["reorder", "codel"];
/// The longest delay in one direction: a hundred times that of a satellite.
const LONGEST: Duration = Duration::from_secs(60);
/// Longer bursts than any link has.
const LONGEST_BURST: f64 = 1e6;

type Settings<'a> = BTreeMap<&'a str, &'a str>;

impl Spec {
    /// Reads a network; `file` reads the file of a trace.
    ///
    /// Errors say which setting is wrong, and how it is to be written.
    pub fn read(text: &str, file: impl Fn(&str) -> Result<String, String>) -> Result<Self, String> {
        Self::of_block(text, 0, file)
    }

    /// Reads a network as it is in a block of an experiment, whose number is added to the seed.
    pub fn of_block(
        text: &str,
        block: u64,
        file: impl Fn(&str) -> Result<String, String>,
    ) -> Result<Self, String> {
        let mut terms = text
            .split(',')
            .map(str::trim)
            .filter(|t| !t.is_empty())
            .peekable();
        let profile = terms.peek().map_or(Ok(None), |first| profile(first))?;
        if profile.is_some() {
            terms.next();
        }
        let mut both = Settings::new();
        let (mut up, mut down) = (Settings::new(), Settings::new());
        for term in terms {
            let (setting, value) = term.split_once('=').unwrap_or((term, ""));
            let (direction, name) = match setting.split_once('.') {
                Some(("up", name)) => (&mut up, name),
                Some(("down", name)) => (&mut down, name),
                _ => (&mut both, setting),
            };
            if WORDS.contains(&name) == term.contains('=') {
                return Err(if WORDS.contains(&name) {
                    format!("{term}: {name} has no value")
                } else {
                    known(setting, name)
                        .err()
                        .unwrap_or_else(|| format!("{setting} needs a value: {setting}=…"))
                });
            }
            known(setting, name)?;
            if direction.insert(name, value).is_some() {
                return Err(format!("{setting} is said twice"));
            }
        }
        let seed = match both.remove("seed") {
            None => 1,
            Some(seed) => seed
                .parse()
                .map_err(|_| format!("seed={seed}: a whole number from 0 to 2^64 - 1"))?,
        };
        let seed = u64::wrapping_add(seed, block);
        let drawn = profile.map_or_else(Vec::new, |(profile, median)| {
            profile.settings((!median).then_some(seed))
        });
        let rtt = drawn.iter().find(|(name, _)| *name == "rtt");
        let half = match both.remove("rtt").or(rtt.map(|(_, value)| value.as_str())) {
            None => Duration::ZERO,
            Some(rtt) => time("rtt", rtt)? / 2,
        };
        let one = |way: &str, own: Settings<'_>| {
            let mut said = both.clone();
            said.extend(own);
            let mut settings = Settings::new();
            for (setting, value) in &drawn {
                let (of, name) = setting.split_once('.').unwrap_or((way, setting));
                let instead = instead_of(name)
                    .iter()
                    .any(|other| said.contains_key(other));
                if of == way && *setting != "rtt" && !instead {
                    settings.insert(name, value);
                }
            }
            // A network that was made shorter than its kind has less jitter, too.
            let delay = said
                .get("delay")
                .map_or(Ok(half), |text| time("delay", text))?;
            let drawn = settings
                .get("jitter")
                .map_or(Ok(delay), |text| time("jitter", text))?;
            let most = format!("{}us", delay.as_micros());
            if drawn > delay {
                settings.insert("jitter", &most);
            }
            settings.extend(said);
            direction(&settings, half, &file)
        };
        Ok(Self {
            up: one("up", up)?,
            down: one("down", down)?,
            seed,
        })
    }
}

/// The profile that a term names, and whether its median is meant; None where it is a setting.
fn profile(term: &str) -> Result<Option<(&'static Profile, bool)>, String> {
    let (name, which) = term.split_once('@').unwrap_or((term, ""));
    if term.contains('=') || known(term, term.split_once('.').map_or(term, |(_, own)| own)).is_ok()
    {
        return Ok(None);
    }
    let Some(profile) = Profile::find(name) else {
        return Err(format!(
            "{term}: there is no such profile, but {}; or write settings, such as rtt=40ms",
            Profile::all()
                .iter()
                .map(|each| each.name)
                .collect::<Vec<_>>()
                .join(", ")
        ));
    };
    match which {
        "" if name == term => Ok(Some((profile, false))),
        "median" => Ok(Some((profile, true))),
        _ => Err(format!(
            "{term}: write {name}, or {name}@median for the network in the middle"
        )),
    }
}

/// Settings that take the place of one that a profile draws.
fn instead_of(name: &str) -> &[&str] {
    match name {
        "rate" => &["rate", "trace"],
        "loss" => &["loss", "pattern"],
        "burst" => &["loss", "burst", "pattern"],
        "jitter" => &["jitter"],
        "queue" => &["queue"],
        _ => &[],
    }
}

/// Whether there is a setting of that name, where it stands.
fn known(setting: &str, name: &str) -> Result<(), String> {
    let alone = setting == name;
    let whole = ["rtt", "seed"];
    if whole.contains(&name) && !alone {
        return Err(format!("{setting}: {name} is that of both directions"));
    }
    if name == "delay" && alone {
        return Err(
            "delay is that of one direction: write up.delay=, down.delay=, or rtt= for the time \
             there and back"
                .into(),
        );
    }
    if SETTINGS.contains(&name) || whole.contains(&name) {
        return Ok(());
    }
    if Profile::find(setting.split('@').next().unwrap_or_default()).is_some() {
        return Err(format!("{setting}: the name of a profile comes first"));
    }
    Err(format!(
        "{setting}: there is no such setting, but rtt, seed, {}, each of which but the first two \
         may have up. or down. before it",
        SETTINGS.join(", ")
    ))
}

/// One direction, whose delay is `half` unless it has its own.
fn direction(
    settings: &Settings<'_>,
    half: Duration,
    file: impl Fn(&str) -> Result<String, String>,
) -> Result<DirectionSpec, String> {
    let given = |name: &str| settings.get(name).copied();
    let delay = given("delay").map_or(Ok(half), |text| time("delay", text))?;
    let jitter = given("jitter").map_or(Ok(Duration::ZERO), |text| time("jitter", text))?;
    if jitter > delay {
        return Err(format!(
            "jitter={} is more than the delay of {delay:?} in one direction: a packet would arrive \
             before it left",
            given("jitter").unwrap_or_default()
        ));
    }
    let reorder = given("reorder").is_some();
    if reorder && jitter.is_zero() {
        return Err("reorder needs jitter=: without it no packet overtakes another".into());
    }
    let bandwidth = bandwidth(given("rate"), given("trace"), file)?;
    for name in ["queue", "codel"] {
        if bandwidth == Bandwidth::Unlimited && given(name).is_some() {
            return Err(format!(
                "{name} needs rate= or trace=: without them no packet waits"
            ));
        }
    }
    Ok(DirectionSpec {
        delay,
        jitter,
        reorder,
        bandwidth,
        queue: given("queue").map_or(Ok(Capacity::default()), capacity)?,
        codel: given("codel").is_some(),
        loss: loss(given("loss"), given("burst"), given("pattern"))?,
        duplicate: given("duplicate").map_or(Ok(0.0), |text| share("duplicate", text))?,
        corrupt: given("corrupt").map_or(Ok(0.0), |text| share("corrupt", text))?,
    })
}

fn bandwidth(
    rate: Option<&str>,
    trace: Option<&str>,
    file: impl Fn(&str) -> Result<String, String>,
) -> Result<Bandwidth, String> {
    match (rate, trace) {
        (None, None) => Ok(Bandwidth::Unlimited),
        (Some(_), Some(_)) => Err("rate= and trace= both say what the link carries".into()),
        (Some(text), None) => units::bit_rate(text)
            .map(Bandwidth::Rate)
            .map_err(|why| format!("rate: {why}")),
        (None, Some(name)) => {
            let wrong = |why| format!("trace={name}: {why}");
            Ok(Bandwidth::Trace {
                name: name.into(),
                trace: file(name).map_err(wrong)?.parse().map_err(wrong)?,
            })
        }
    }
}

fn capacity(text: &str) -> Result<Capacity, String> {
    let wrong = || {
        format!(
            "queue={text}: write bandwidth-delay products such as 1bdp, packets such as 100p, or \
             bytes such as 64k"
        )
    };
    if let Some(products) = text.strip_suffix("bdp") {
        let products: f64 = products.parse().map_err(|_| wrong())?;
        return (products > 0.0 && products <= 1000.0)
            .then_some(Capacity::Bdp(products))
            .ok_or_else(wrong);
    }
    if let Some(packets) = text.strip_suffix('p') {
        let packets = packets.parse().map_err(|_| wrong())?;
        return (1..=10_000_000)
            .contains(&packets)
            .then_some(Capacity::Packets(packets))
            .ok_or_else(wrong);
    }
    let bytes = units::size(text).map_err(|_| wrong())?;
    if bytes < MTU as u64 {
        return Err(format!(
            "queue={text} does not hold a packet of {MTU} bytes: none could pass"
        ));
    }
    Ok(Capacity::Bytes(bytes))
}

fn loss(
    loss: Option<&str>,
    burst: Option<&str>,
    pattern: Option<&str>,
) -> Result<LossSpec, String> {
    if let Some(text) = pattern {
        if loss.is_some() || burst.is_some() {
            return Err(
                "pattern= says which packets are lost: loss= and burst= do not go with it".into(),
            );
        }
        return text.parse().map(LossSpec::Pattern);
    }
    let lost = loss.map_or(Ok(0.0), |text| share("loss", text))?;
    let Some(text) = burst else {
        return Ok(LossSpec::Random {
            share: lost,
            burst: None,
        });
    };
    let length: f64 = text
        .parse()
        .ok()
        .filter(|length| (1.0..=LONGEST_BURST).contains(length))
        .ok_or_else(|| format!("burst={text}: how many packets are lost in a row, at least 1"))?;
    if lost == 0.0 {
        return Err("burst= needs loss=, the share of packets that are lost".into());
    }
    // More could not lie apart.
    let most = length / (1.0 + length);
    if lost > most {
        return Err(format!(
            "loss={}% in bursts of {text}: at most {:.4}% can be lost in such",
            100.0 * lost,
            100.0 * most
        ));
    }
    Ok(LossSpec::Random {
        share: lost,
        burst: Some(length),
    })
}

fn time(name: &str, text: &str) -> Result<Duration, String> {
    let wrong = |why: &str| format!("{name}={text}: {why}");
    // Seconds are too long for a network to be what is meant.
    if text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return Err(wrong("say a unit, such as 40ms"));
    }
    let time = units::time(text).map_err(|why| wrong(&why))?;
    if time > LONGEST {
        return Err(wrong("at most 60s"));
    }
    Ok(time)
}

fn share(name: &str, text: &str) -> Result<f64, String> {
    units::share(text).map_err(|why| format!("{name}: {why}"))
}
