//! Networks in words.

use super::*;

fn read(text: &str) -> Result<Spec, String> {
    Spec::read(text, |name| match name {
        "there.up" => Ok("1\n2\n".into()),
        _ => Err("No such file".into()),
    })
}

#[test]
fn what_is_not_said_does_nothing() {
    let nothing = Spec {
        up: DirectionSpec::default(),
        down: DirectionSpec::default(),
        seed: 1,
    };
    assert_eq!(read(""), Ok(nothing));
}

#[test]
fn settings_of_one_direction_take_the_place_of_those_of_both() {
    let spec = read("rtt=40ms,rate=20mbit,up.rate=2mbit,down.loss=1%,up.delay=5ms").unwrap();
    assert_eq!(spec.up.bandwidth, Bandwidth::Rate(2_000_000));
    assert_eq!(spec.down.bandwidth, Bandwidth::Rate(20_000_000));
    assert_eq!(spec.up.delay, Duration::from_millis(5));
    assert_eq!(spec.down.delay, Duration::from_millis(20));
    assert_eq!(spec.up.loss, LossSpec::default());
    assert_eq!(
        spec.down.loss,
        LossSpec::Random {
            share: 0.01,
            burst: None
        }
    );
}

#[test]
fn a_network_is_written_as_it_is_read() {
    for text in [
        "seed=1",
        "rtt=40ms,seed=1",
        "rtt=40ms,jitter=5ms,rate=20mbit,queue=1bdp,loss=0.01,burst=3,seed=7",
        "rtt=500us,jitter=200us,reorder,rate=1gbit,queue=100p,codel,duplicate=0.07,seed=1",
        "up.delay=5ms,down.delay=20ms,pattern=99/1,corrupt=0.001,seed=18446744073709551615",
        "rtt=10ms,loss=0.02,up.rate=2mbit,up.queue=2bdp,down.rate=1500kbit,down.queue=65536,seed=1",
        "rtt=10ms,trace=there.up,queue=1bdp,seed=1",
    ] {
        let spec = read(text).unwrap();
        assert_eq!(spec.to_string(), text);
    }
    let typed = read(" loss=2% , rtt=0.04s,jitter=1500us,rate=1000mbit,queue=64k,").unwrap();
    let written = "rtt=40ms,jitter=1500us,rate=1gbit,queue=65536,loss=0.02,seed=1";
    assert_eq!(typed.to_string(), written);
    assert_eq!(read(written), Ok(typed));
}

#[test]
fn what_cannot_be_is_named() {
    for (text, said) in [
        ("rtt", "rtt needs a value: rtt=…"),
        ("rtt=", "rtt=: say a unit"),
        ("rtt=40", "rtt=40: say a unit, such as 40ms"),
        ("rtt=2m30", "rtt=2m30: "),
        ("rtt=3m", "rtt=3m: at most 60s"),
        ("rtt=1ms,rtt=2ms", "rtt is said twice"),
        ("up.loss=1%,up.loss=2%", "up.loss is said twice"),
        ("up.rtt=5ms", "up.rtt: rtt is that of both directions"),
        ("delay=5ms", "write up.delay=, down.delay="),
        ("lossy", "lossy: there is no such profile, but lan"),
        ("latency=5ms", "latency: there is no such setting"),
        ("left.loss=1%", "left.loss: there is no such setting"),
        (
            "reorder=yes,jitter=1ms",
            "reorder=yes: reorder has no value",
        ),
        ("rtt=10ms,reorder", "reorder needs jitter="),
        (
            "rtt=2ms,jitter=5ms",
            "jitter=5ms is more than the delay of 1ms in one direction",
        ),
        ("rate=20", "rate: \"20\" is not a rate"),
        ("rate=0mbit", "is not a rate"),
        (
            "rate=1mbit,trace=there.up",
            "rate= and trace= both say what the link carries",
        ),
        ("trace=nowhere", "trace=nowhere: No such file"),
        ("queue=1bdp", "queue needs rate= or trace="),
        ("codel", "codel needs rate= or trace="),
        (
            "rate=1mbit,queue=big",
            "queue=big: write bandwidth-delay products such as 1bdp",
        ),
        ("rate=1mbit,queue=0p", "queue=0p: write"),
        ("rate=1mbit,queue=-1bdp", "queue=-1bdp: write"),
        (
            "rate=1mbit,queue=1000",
            "queue=1000 does not hold a packet of 1500 bytes",
        ),
        ("loss=101%", "loss: \"101%\" is not a share"),
        (
            "loss=1%,burst=0.5",
            "burst=0.5: how many packets are lost in a row, at least 1",
        ),
        ("loss=1%,burst=nan", "burst=nan: how many"),
        ("burst=3", "burst= needs loss="),
        (
            "loss=80%,burst=3",
            "loss=80% in bursts of 3: at most 75.0000% can be lost in such",
        ),
        (
            "loss=1%,pattern=99/1",
            "pattern= says which packets are lost",
        ),
        ("pattern=5", "\"5\" is not a pattern"),
        ("seed=-1", "seed=-1: a whole number"),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.contains(said), "{text}: {error}");
    }
}
