//! Media types.

/// How a message is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// The JSON mapping of Protocol Buffers.
    Json,
    /// Binary Protocol Buffers.
    Protobuf,
}

impl Format {
    /// The format of a `content-type`; its parameters are ignored. `None` for other media types.
    #[must_use]
    pub fn of_media_type(value: &str) -> Option<Self> {
        let essence = value.split(';').next().unwrap_or_default().trim();
        let is = |name: &&str| essence.eq_ignore_ascii_case(name);
        if is(&"application/json") {
            return Some(Format::Json);
        }
        let names = [
            "application/protobuf",
            "application/x-protobuf",
            "application/vnd.google.protobuf",
        ];
        names.iter().any(is).then_some(Format::Protobuf)
    }

    /// What an `accept` asks for (RFC 9110, section 12.5.1): the format of the higher weight; of
    /// equal ones the one that is named, then JSON. `None` where neither is acceptable.
    #[must_use]
    pub fn accept(value: &str) -> Option<Self> {
        if value.trim().is_empty() {
            return Some(Format::Json);
        }
        // For each format the most precise range that matches it: (precision, weight in thousandths).
        let mut json: Option<(u8, u16)> = None;
        let mut protobuf: Option<(u8, u16)> = None;
        for range in value.split(',') {
            let (essence, parameters) = range.split_once(';').unwrap_or((range, ""));
            let weight = weight(parameters);
            // Of several names of one format the highest weight counts.
            let note = |best: &mut Option<(u8, u16)>, precision: u8| {
                *best = (*best).max(Some((precision, weight)));
            };
            match essence.trim() {
                "*/*" => {
                    note(&mut json, 0);
                    note(&mut protobuf, 0);
                }
                essence if essence.eq_ignore_ascii_case("application/*") => {
                    note(&mut json, 1);
                    note(&mut protobuf, 1);
                }
                essence => match Format::of_media_type(essence) {
                    Some(Format::Json) => note(&mut json, 2),
                    Some(Format::Protobuf) => note(&mut protobuf, 2),
                    None => {}
                },
            }
        }
        let rank = |found: Option<(u8, u16)>| {
            found.and_then(|(precision, weight)| (weight > 0).then_some((weight, precision)))
        };
        match (rank(json), rank(protobuf)) {
            (None, None) => None,
            (json, protobuf) if json >= protobuf => Some(Format::Json),
            _ => Some(Format::Protobuf),
        }
    }

    /// The `content-type` of this format.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Protobuf => "application/protobuf",
        }
    }
}

/// The weight in thousandths; what is not one counts as 0.
fn weight(parameters: &str) -> u16 {
    let q = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| value.trim())
    });
    let Some(q) = q else {
        return 1000;
    };
    match q.parse::<f32>() {
        Ok(weight) if (0.0..=1.0).contains(&weight) => (weight * 1000.0).round() as u16,
        _ => 0,
    }
}
