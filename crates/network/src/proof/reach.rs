//! What the emulator reaches on a machine, beside what it is to reach.

use std::fs::File;
use std::hint;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{SMALL, Trip};
use crate::emulator::spent;
use crate::{Direction, End, MTU, Running, Side, Spec, Tcp, Way, sys};

/// Rates that are to hold, as they are asked for.
const RATES: [&str; 4] = ["1mbit", "10mbit", "100mbit", "1gbit"];
/// Largest error of a rate, in percent.
const RATE_ERROR: f64 = 1.0;
/// Largest error of a delay at the 99th percentile, in microseconds.
const DELAY_ERROR: f64 = 100.0;
/// Most processor time for a packet in one direction, in microseconds.
const COST: f64 = 1.5;
/// Largest error of the share lost and of the mean burst, in percent, over so many packets.
const LOSS_ERROR: f64 = 5.0;
const LOSS_PACKETS: u64 = 1_000_000;
/// Packets whose delays are measured, and how many a second.
const DELAYED: f64 = 1000.0;
const DELAYED_PACE: f64 = 500.0;
/// Packets whose cost is measured, and how many a second are sent where the machine can.
const COSTING: f64 = 100_000.0;
const COSTING_PACE: f64 = 100_000.0;

/// Something that the emulator is to reach, and what it reached.
#[derive(Clone, Debug)]
pub struct Reached {
    /// What was measured.
    pub what: String,
    /// Unit of the numbers.
    pub unit: &'static str,
    /// What was seen; None where this machine sent too little to tell.
    pub seen: Option<f64>,
    /// What it may be at most; None where it is there for comparison.
    pub at_most: Option<f64>,
}

impl Reached {
    /// Whether it is what it is to be; None where there is nothing that it is to be.
    pub fn is_met(&self) -> Option<bool> {
        let at_most = self.at_most?;
        Some(self.seen.is_some_and(|seen| seen <= at_most))
    }
}

/// Measures all that is to be reached, with networks of its own; tells of each network before it is
/// measured.
///
/// It takes about half a minute. Other programs that run meanwhile are a part of what it measures.
pub fn reach(mut tell: impl FnMut(&str)) -> io::Result<Vec<Reached>> {
    let mut reached = Vec::new();
    for rate in RATES {
        tell(&format!("rate={rate}"));
        reached.extend(rates(rate)?);
    }
    tell("rtt=20ms");
    reached.extend(delays()?);
    tell("packets without a pause");
    reached.extend(costs()?);
    tell("losses of a million packets");
    reached.extend(losses("loss=1%", None)?);
    reached.extend(losses("loss=1%,burst=3", Some(3.0))?);
    Ok(reached)
}

fn percent(seen: f64, asked: f64) -> f64 {
    100.0 * (seen / asked - 1.0).abs()
}

fn spec(text: &str) -> io::Result<Spec> {
    Spec::read(text, |name| Err(format!("{name} is no part of this"))).map_err(io::Error::other)
}

struct Ends {
    client: End,
    server: End,
    interfaces: [File; 2],
}

fn ends() -> io::Result<Ends> {
    let tcp = Tcp::default();
    let make = |side| End::new(side, &tcp).map_err(io::Error::other);
    let (server, of_server) = make(Side::Server)?;
    let (client, of_client) = make(Side::Client)?;
    Ok(Ends {
        client,
        server,
        interfaces: [of_client, of_server],
    })
}

fn both<'a>(spec: &'a Spec, client: &End, server: &End) -> io::Result<[Trip<'a>; 2]> {
    Ok([
        Trip::new(spec, Way::Up, client, server)?,
        Trip::new(spec, Way::Down, server, client)?,
    ])
}

fn rates(rate: &str) -> io::Result<Vec<Reached>> {
    let spec = spec(&format!("rate={rate}"))?;
    let Ends {
        client,
        server,
        interfaces: [of_client, of_server],
    } = ends()?;
    let network = Running::start(&spec, of_client, of_server)?;
    let mut reached = Vec::new();
    for trip in both(&spec, &client, &server)? {
        let check = trip.rate()?;
        reached.push(Reached {
            what: format!("error of the rate at {rate}, {}", trip.way),
            unit: "%",
            seen: check.map(|check| percent(check.seen, check.asked)),
            at_most: Some(RATE_ERROR),
        });
    }
    network.stop()?;
    Ok(reached)
}

fn delays() -> io::Result<Vec<Reached>> {
    let spec = spec("rtt=20ms")?;
    let Ends {
        client,
        server,
        interfaces: [of_client, of_server],
    } = ends()?;
    let network = Running::start(&spec, of_client, of_server)?;
    let mut reached = Vec::new();
    for trip in both(&spec, &client, &server)? {
        let asked = spec.of(trip.way).delay.as_nanos() as i64;
        let train = trip.train(0, SMALL, DELAYED_PACE, DELAYED)?;
        let mut errors: Vec<i64> = train
            .took
            .iter()
            .flatten()
            .map(|took| (took - asked).abs())
            .collect();
        errors.sort_unstable();
        let p99 = errors.get(errors.len() * 99 / 100);
        reached.push(Reached {
            what: format!("error of a delay of 10 ms at p99, {}", trip.way),
            unit: "µs",
            seen: p99.map(|nanos| *nanos as f64 / 1e3),
            at_most: Some(DELAY_ERROR),
        });
    }
    network.stop()?;
    Ok(reached)
}

fn costs() -> io::Result<Vec<Reached>> {
    let mut reached = Vec::new();
    for (size, name) in [(MTU, "1500 bytes"), (SMALL, "64 bytes")] {
        // Far more than is sent: every part has its work, and no packet waits.
        let spec = spec("rtt=1ms,rate=100gbit,queue=10000p")?;
        let made = ends()?;
        let [of_client, of_server] = made.interfaces;
        let network = Running::start(&spec, of_client, of_server)?;
        let [up, _] = both(&spec, &made.client, &made.server)?;
        up.train(0, size, COSTING_PACE, COSTING)?;
        let outcome = network.stop()?;
        let packets = (outcome.up.forwarded.packets + outcome.down.forwarded.packets) as f64;
        let each = |time: Duration| (packets > 0.0).then(|| time.as_secs_f64() * 1e6 / packets);
        reached.push(Reached {
            what: format!("processor time of a packet of {name} and direction"),
            unit: "µs",
            seen: each(outcome.cpu.saturating_sub(outcome.waited)),
            at_most: Some(COST),
        });
        reached.push(Reached {
            what: format!("of that in our own code, {name}"),
            unit: "µs",
            seen: Some(own_code(&spec, size)),
            at_most: None,
        });
        reached.push(Reached {
            what: format!("read(2) and write(2) with nothing in between, {name}"),
            unit: "µs",
            seen: system_calls(size)?,
            at_most: None,
        });
    }
    Ok(reached)
}

/// Time of a packet, in microseconds, from read(2) of one interface to the end of write(2) to the
/// other, with nothing in between: what the kernel takes, up to the socket that receives it.
fn system_calls(size: usize) -> io::Result<Option<f64>> {
    let spec = Spec::default();
    let made = ends()?;
    let [up, _] = both(&spec, &made.client, &made.server)?;
    let over = Arc::new(AtomicBool::new(false));
    let [from, to] = made.interfaces;
    let (packets, took) = thread::scope(|scope| {
        let copier = scope.spawn(|| copy(&from, &to, &over));
        let sent = up.train(0, size, COSTING_PACE, COSTING);
        over.store(true, Ordering::Relaxed);
        let copied = copier
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that copies panicked")));
        sent.and(copied)
    })?;
    Ok((packets > 0).then(|| took.as_secs_f64() * 1e6 / packets as f64))
}

/// Copies packets until it is over; gives how many, and the time that this took.
fn copy(mut from: &File, mut to: &File, over: &AtomicBool) -> io::Result<(u64, Duration)> {
    let _ = sys::run_first();
    let mut buffer = [0; 2 * MTU];
    let (mut packets, mut took) = (0, Duration::ZERO);
    while !over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        match from.read(&mut buffer) {
            Ok(length) => {
                // What an interface refuses is lost, as it is in a network.
                packets += u64::from(to.write(&buffer[..length]).is_ok());
                took += begun.elapsed();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => hint::spin_loop(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((packets, took))
}

/// Processor time of a packet, in microseconds, in our own code: one direction in virtual time.
fn own_code(spec: &Spec, size: usize) -> f64 {
    let mut direction = Direction::new(spec, Way::Up);
    let packet = vec![0_u8; size];
    let begun = spent();
    for number in 0..LOSS_PACKETS {
        let now = number * 10_000;
        direction.receive(now, packet.clone());
        while direction.poll(now).is_some() {}
    }
    spent().saturating_sub(begun).as_secs_f64() * 1e6 / LOSS_PACKETS as f64
}

/// Losses of a direction in virtual time.
fn losses(text: &str, burst: Option<f64>) -> io::Result<Vec<Reached>> {
    let spec = spec(text)?;
    let mut direction = Direction::new(&spec, Way::Up);
    let (mut lost, mut bursts, mut in_burst) = (0, 0_u64, false);
    for number in 0..LOSS_PACKETS {
        direction.receive(number, vec![0_u8; SMALL]);
        while direction.poll(number).is_some() {}
        let now = direction.counters().lost.packets;
        let is_lost = now > lost;
        bursts += u64::from(is_lost && !in_burst);
        (lost, in_burst) = (now, is_lost);
    }
    let share = lost as f64 / LOSS_PACKETS as f64;
    let row = |what: &str, seen, asked| Reached {
        what: format!("error of {what} of 10⁶ packets, {text}"),
        unit: "%",
        seen: Some(percent(seen, asked)),
        at_most: Some(LOSS_ERROR),
    };
    let mut reached = vec![row("the share lost", share, 0.01)];
    reached.extend(burst.map(|asked| row("the mean burst", lost as f64 / bursts as f64, asked)));
    Ok(reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_a_million_packets_are_as_they_were_asked() {
        for (text, burst) in [("loss=1%", None), ("loss=1%,burst=3", Some(3.0))] {
            let reached = losses(text, burst).unwrap();
            assert_eq!(reached.len(), 1 + usize::from(burst.is_some()));
            for each in reached {
                assert_eq!(each.is_met(), Some(true), "{each:?}");
            }
        }
    }

    #[test]
    fn what_could_not_be_measured_is_not_met() {
        let reached = |seen, at_most| Reached {
            what: String::new(),
            unit: "%",
            seen,
            at_most,
        };
        assert_eq!(reached(None, Some(1.0)).is_met(), Some(false));
        assert_eq!(reached(Some(1.5), Some(1.0)).is_met(), Some(false));
        assert_eq!(reached(Some(0.5), Some(1.0)).is_met(), Some(true));
        assert_eq!(reached(Some(0.5), None).is_met(), None);
    }
}
