//! The kinds of networks, and where their numbers are from.

use super::{Profile, Property};

const WEBPAGETEST: &str =
    "the median, or a quantile where it stands: WebPageTest, connectivity.ini";
const FCC: &str = "the median: FCC, Measuring Broadband America 2016 (Verizon)";
const LOSS: &str = "assumed, most of it in the lowest class of the FCC's reports (below 0.4 %)";
const ASSUMED: &str = "assumed";
const OPENSIGNAL: &str =
    "the median: OpenSignal, State of Mobile USA 2019 (means); the rest assumed";

const fn property(
    setting: &'static str,
    unit: &'static str,
    quantiles: [f64; 5],
    source: &'static str,
) -> Property {
    Property {
        setting,
        unit,
        quantiles,
        source,
    }
}

pub(super) const PROFILES: &[Profile] = &[
    Profile {
        name: "lan",
        about: "Ethernet in one building; its rate is not emulated",
        properties: &[property("rtt", "ms", [0.2, 0.25, 0.3, 0.4, 0.8], ASSUMED)],
        always: "",
    },
    Profile {
        name: "datacenter",
        about: "between racks of one data centre; its rate is not emulated",
        properties: &[property(
            "rtt",
            "ms",
            [0.15, 0.2, 0.24, 0.35, 0.8],
            "Pingmesh (SIGCOMM 2015): medians 216 µs in a pod and 268 µs between pods, 1.34 ms at the \
             99th percentile",
        )],
        always: "",
    },
    Profile {
        name: "dsl",
        about: "a home on a telephone line",
        properties: &[
            property("rtt", "ms", [25.0, 32.0, 38.0, 44.0, 55.0], FCC),
            property("down.rate", "mbit", [1.5, 5.0, 11.3, 18.0, 40.0], FCC),
            property("up.rate", "mbit", [0.384, 0.7, 1.0, 2.0, 8.0], WEBPAGETEST),
            property("jitter", "ms", [0.5, 1.0, 2.0, 4.0, 8.0], ASSUMED),
            property("loss", "%", [0.0, 0.02, 0.05, 0.1, 0.4], LOSS),
        ],
        always: "queue=2bdp",
    },
    Profile {
        name: "cable",
        about: "a home on cable television",
        properties: &[
            property("rtt", "ms", [14.0, 20.0, 28.0, 34.0, 45.0], WEBPAGETEST),
            property(
                "down.rate",
                "mbit",
                [5.0, 40.0, 100.0, 150.0, 300.0],
                ASSUMED,
            ),
            property("up.rate", "mbit", [1.0, 5.0, 10.0, 20.0, 35.0], ASSUMED),
            property("jitter", "ms", [0.5, 1.0, 2.0, 4.0, 6.0], ASSUMED),
            property("loss", "%", [0.0, 0.02, 0.05, 0.1, 0.4], LOSS),
        ],
        always: "queue=2bdp",
    },
    Profile {
        name: "fibre",
        about: "a home on fibre",
        properties: &[
            property("rtt", "ms", [4.0, 8.0, 11.6, 15.0, 22.0], FCC),
            property("down.rate", "mbit", [20.0, 50.0, 75.0, 150.0, 300.0], FCC),
            property("up.rate", "mbit", [5.0, 30.0, 75.0, 100.0, 300.0], FCC),
            property("jitter", "ms", [0.1, 0.2, 0.5, 1.0, 2.0], ASSUMED),
            property("loss", "%", [0.0, 0.005, 0.01, 0.05, 0.2], LOSS),
        ],
        always: "",
    },
    Profile {
        name: "wifi-lossy",
        about: "a wireless network of a home, far from its access point",
        properties: &[
            property("rtt", "ms", [12.0, 18.0, 25.0, 40.0, 90.0], ASSUMED),
            property("rate", "mbit", [5.0, 12.0, 25.0, 50.0, 100.0], ASSUMED),
            property("jitter", "ms", [1.0, 2.0, 5.0, 8.0, 20.0], ASSUMED),
            property("loss", "%", [0.5, 1.0, 2.0, 3.0, 6.0], ASSUMED),
            property(
                "burst",
                "",
                [1.5, 2.0, 3.0, 4.0, 8.0],
                "assumed; that losses come in bursts of Gilbert and Elliott: 802.11g packet-loss \
                 behavior at high sustained bit rates in the home",
            ),
        ],
        always: "queue=2bdp",
    },
    Profile {
        name: "4g",
        about: "a telephone on LTE",
        properties: &[
            property(
                "rtt",
                "ms",
                [35.0, 44.1, 55.0, 66.4, 170.0],
                "the quartiles: OpenSignal, State of Mobile USA 2019 (the least and the largest mean \
                 of a state or city); the largest: WebPageTest, connectivity.ini",
            ),
            property(
                "down.rate",
                "mbit",
                [4.0, 10.0, 21.3, 35.0, 60.0],
                OPENSIGNAL,
            ),
            property("up.rate", "mbit", [1.2, 3.0, 6.3, 10.0, 18.0], OPENSIGNAL),
            property("jitter", "ms", [2.0, 4.0, 8.0, 14.0, 25.0], ASSUMED),
            property("loss", "%", [0.0, 0.02, 0.1, 0.3, 1.0], ASSUMED),
        ],
        always: "queue=2bdp",
    },
    Profile {
        name: "5g",
        about: "a telephone on 5G below 6 GHz",
        properties: &[
            property("rtt", "ms", [15.0, 22.0, 30.0, 40.0, 60.0], ASSUMED),
            property(
                "down.rate",
                "mbit",
                [25.0, 70.0, 140.0, 220.0, 350.0],
                ASSUMED,
            ),
            property("up.rate", "mbit", [4.0, 10.0, 18.0, 30.0, 50.0], ASSUMED),
            property("jitter", "ms", [1.0, 2.0, 4.0, 7.0, 12.0], ASSUMED),
            property("loss", "%", [0.0, 0.01, 0.05, 0.2, 0.8], ASSUMED),
        ],
        always: "queue=2bdp",
    },
    Profile {
        name: "3g",
        about: "a telephone on UMTS",
        properties: &[
            property(
                "rtt",
                "ms",
                [120.0, 200.0, 300.0, 400.0, 600.0],
                WEBPAGETEST,
            ),
            property("down.rate", "mbit", [0.4, 0.9, 1.6, 2.8, 6.0], WEBPAGETEST),
            property("up.rate", "mbit", [0.2, 0.4, 0.768, 1.2, 2.0], WEBPAGETEST),
            property("jitter", "ms", [5.0, 10.0, 20.0, 35.0, 55.0], ASSUMED),
            property("loss", "%", [0.0, 0.1, 0.3, 0.8, 2.0], ASSUMED),
        ],
        always: "queue=2bdp",
    },
    Profile {
        name: "leo",
        about: "satellites in a low orbit, such as Starlink's",
        properties: &[
            property(
                "rtt",
                "ms",
                [25.0, 40.0, 50.0, 60.0, 90.0],
                "the quartiles: A first look at Starlink performance (IMC 2022), and APNIC's article \
                 on it; the outer ones assumed",
            ),
            property(
                "down.rate",
                "mbit",
                [50.0, 100.0, 150.0, 200.0, 300.0],
                "the quartiles: what is promoted, 100 to 200 Mbit/s; that more than 300 occur: IMC 2022",
            ),
            property("up.rate", "mbit", [5.0, 10.0, 17.0, 25.0, 40.0], ASSUMED),
            property("jitter", "ms", [1.0, 2.0, 4.0, 7.0, 12.0], ASSUMED),
            property("loss", "%", [0.05, 0.2, 0.5, 1.0, 3.0], ASSUMED),
            property(
                "burst",
                "",
                [2.0, 3.0, 5.0, 8.0, 15.0],
                "assumed; that losses gather at handovers: A browser-side view of Starlink \
                 connectivity (IMC 2022)",
            ),
        ],
        always: "",
    },
    Profile {
        name: "geo",
        about: "a satellite in the geostationary orbit",
        properties: &[
            property(
                "rtt",
                "ms",
                [560.0, 580.0, 600.0, 650.0, 750.0],
                "the median: IMC 2022, as beside Starlink; the way of four times 35,786 km takes 477 ms",
            ),
            property("down.rate", "mbit", [8.0, 20.0, 40.0, 70.0, 100.0], ASSUMED),
            property("up.rate", "mbit", [1.0, 2.0, 4.0, 7.0, 10.0], ASSUMED),
            property("jitter", "ms", [1.0, 3.0, 6.0, 12.0, 25.0], ASSUMED),
            property("loss", "%", [0.0, 0.05, 0.2, 0.5, 1.5], ASSUMED),
        ],
        always: "",
    },
    Profile {
        name: "transatlantic",
        about: "between data centres in New York and western Europe",
        properties: &[
            property(
                "rtt",
                "ms",
                [60.0, 66.0, 75.0, 85.0, 100.0],
                "the least: the fastest cables from New York to London, 58.95 ms (Hibernia Express) \
                 and 60.8 ms to the coast (AC-1); the rest assumed",
            ),
            property("rate", "mbit", [50.0, 80.0, 100.0, 150.0, 200.0], ASSUMED),
            property("loss", "%", [0.0, 0.001, 0.01, 0.03, 0.1], ASSUMED),
        ],
        always: "",
    },
];
