//! Made-up text of a believable size and entropy, the same in every build.

/// SplitMix64 (Steele, Lea, Flood 2014): small, and fixed for all time, which a library's
/// generator is not.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(super) fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

pub(super) const ADJECTIVES: &[&str] = &[
    "abandoned",
    "ancient",
    "ashen",
    "blind",
    "borrowed",
    "broken",
    "burning",
    "clockwork",
    "cold",
    "copper",
    "crystal",
    "distant",
    "dreaming",
    "drowned",
    "electric",
    "empty",
    "endless",
    "errant",
    "exiled",
    "fallen",
    "faithless",
    "feral",
    "forgotten",
    "fractured",
    "frozen",
    "glass",
    "golden",
    "hidden",
    "hollow",
    "hungry",
    "immortal",
    "infinite",
    "inverted",
    "iron",
    "last",
    "lonely",
    "lost",
    "lunar",
    "martian",
    "mechanical",
    "migrant",
    "nameless",
    "obsidian",
    "orbital",
    "pale",
    "patient",
    "quantum",
    "quiet",
    "radiant",
    "restless",
    "scarlet",
    "second",
    "secret",
    "silent",
    "silver",
    "sleeping",
    "solar",
    "starless",
    "stolen",
    "synthetic",
    "thirteenth",
    "unborn",
    "unfinished",
    "vanishing",
    "velvet",
    "violet",
    "wandering",
    "weightless",
    "winter",
    "wired",
];

pub(super) const NOUNS: &[&str] = &[
    "android",
    "archive",
    "armada",
    "atlas",
    "beacon",
    "cathedral",
    "child",
    "citadel",
    "city",
    "clock",
    "colony",
    "comet",
    "compass",
    "corridor",
    "courier",
    "crew",
    "desert",
    "dynasty",
    "echo",
    "emissary",
    "empire",
    "engine",
    "equation",
    "exile",
    "experiment",
    "frontier",
    "garden",
    "gate",
    "harbour",
    "harvest",
    "heir",
    "horizon",
    "island",
    "labyrinth",
    "lantern",
    "library",
    "lighthouse",
    "machine",
    "map",
    "memory",
    "meridian",
    "message",
    "migration",
    "mirror",
    "moon",
    "navigator",
    "nebula",
    "observatory",
    "ocean",
    "oracle",
    "orchard",
    "orphan",
    "paradox",
    "pilgrim",
    "planet",
    "prophecy",
    "protocol",
    "signal",
    "singularity",
    "station",
    "storm",
    "theorem",
    "tide",
    "tower",
    "treaty",
    "vessel",
    "voyage",
    "witness",
    "winter",
    "world",
];

pub(super) const PEOPLE: &[&str] = &[
    "a disgraced pilot",
    "a retired cartographer",
    "the last human translator",
    "a smuggler with a conscience",
    "an artificial mind that refuses orders",
    "a botanist stationed on the far side of the moon",
    "an archivist who remembers too much",
    "a child born between the stars",
    "the captain of a generation ship",
    "a runaway clone",
    "a linguist in exile",
    "a mechanic from the lower decks",
    "the ambassador of a dead planet",
    "two sisters on opposite sides of the war",
    "an inspector of lighthouses",
    "a mathematician who no longer sleeps",
    "a surgeon under a false name",
    "an orbital gardener",
    "the only passenger",
    "a veteran of a war that officially never took place",
];

pub(super) const PLACES: &[&str] = &[
    "beneath the ice of Europa",
    "in the rings of Saturn",
    "aboard a drifting freighter",
    "on a world without night",
    "in the last city of Mars",
    "at the edge of the known galaxy",
    "inside a moon-sized library",
    "in orbit around a dying star",
    "in flooded Shanghai",
    "on the plains of Ganymede",
    "in a colony that Earth has forgotten",
    "within a computer the size of a continent",
    "under the red dust of Tharsis",
    "on the slow road to Proxima",
    "in the tunnels below the spaceport",
    "at a relay station nobody visits",
    "in the year of the second silence",
    "among the wrecks of the first armada",
];

const VERBS: &[&str] = &[
    "discovers",
    "must protect",
    "hunts",
    "is haunted by",
    "inherits",
    "steals",
    "awakens",
    "is sent to destroy",
    "tries to forget",
    "bargains with",
    "falls in love with",
    "deciphers",
    "is asked to judge",
    "builds",
    "betrays",
    "escapes with",
    "finally understands",
];

const STAKES: &[&str] = &[
    "and the price is higher than anyone had imagined",
    "while three governments prepare for war",
    "before the fuel, the air and the patience of the crew run out",
    "knowing that the rescue ship will arrive four hundred years too late",
    "although everyone who knew the truth is dead, or worse",
    "and nothing that follows can be called an accident",
    "in a race against an enemy that thinks a million times faster",
    "and learns that the past is the most dangerous place of all",
    "as the first message in nine centuries reaches the antennas",
    "unaware that every step has been foreseen",
    "with only a damaged map and an unreliable companion for help",
    "at the very moment when the stars begin to go out",
];

const PRAISE: &[&str] = &[
    "A modern classic of the genre.",
    "Winner of more awards than its author cared to count.",
    "Readers have argued about the ending ever since.",
    "The first volume of a celebrated series.",
    "Rigorous, strange and unexpectedly funny.",
    "Newly revised, with an afterword by the author.",
    "Few novels have described solitude so well.",
    "Translated into thirty-one languages.",
    "Equal parts adventure, elegy and argument.",
    "The science has aged; the people have not.",
    "Long out of print, and long overdue for rediscovery.",
];

/// One sentence, with its full stop.
pub(super) fn sentence(random: &mut Random) -> String {
    let (adjective, noun) = (random.pick(ADJECTIVES), random.pick(NOUNS));
    match random.below(5) {
        0 => format!(
            "{}, {} {} the {adjective} {noun}, {}.",
            capital(random.pick(PLACES)),
            random.pick(PEOPLE),
            random.pick(VERBS),
            random.pick(STAKES),
        ),
        1 => format!(
            "When the {adjective} {noun} appears {}, {} {} it, {}.",
            random.pick(PLACES),
            random.pick(PEOPLE),
            random.pick(VERBS),
            random.pick(STAKES),
        ),
        2 => format!(
            "{} {} the {adjective} {noun} {}.",
            capital(random.pick(PEOPLE)),
            random.pick(VERBS),
            random.pick(PLACES),
        ),
        3 => format!(
            "But the {noun} is not what it seems: somewhere {}, {} waits, {}.",
            random.pick(PLACES),
            random.pick(PEOPLE),
            random.pick(STAKES),
        ),
        _ => random.pick(PRAISE).to_owned(),
    }
}

pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .chain(letters)
        .collect()
}
