//! Text of which a part is another one in each request: `{seq}`, `{rand:1-6}`, `{uuid}` and
//! `{csv:FILE:COLUMN}`. What a request gets follows from its number alone, so that it is the same when it
//! is sent again, and in every run; but for `{var:NAME}`, what a virtual user has taken from a response.

use std::path::Path;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use url::{Position, Url};
use uuid::Builder;

use crate::checks::parse_url;
use crate::plan::{PlanError, usage};
use crate::scenario::Values;

/// Everything but the unreserved characters (RFC 3986 §2.3).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// What stands in a URL for a placeholder while it is parsed: letters, which no URL changes in its path
/// or query.
const MARK: &str = "zTRILANEz";

/// Text with what changes in it.
#[derive(Clone, Debug)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Clone, Debug)]
enum Piece {
    Text(Box<str>),
    /// The number of the request.
    Sequence,
    /// A number between two, both included; `salt` tells it from others of the request.
    Random {
        low: u64,
        high: u64,
        salt: u64,
    },
    Uuid {
        salt: u64,
    },
    /// The values of a column, in turn.
    Column(Arc<[Box<str>]>),
    /// What a virtual user has taken from a response.
    Variable {
        index: usize,
        in_url: bool,
    },
    /// The cookies of a virtual user.
    Cookies,
}

/// What templates of a plan share: the columns of files that were read, and a salt for each
/// placeholder.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    salt: u64,
    columns: Vec<(String, Arc<[Box<str>]>)>,
    /// Names of what virtual users take from responses.
    variables: Vec<String>,
}

/// A part of a text that is written.
enum Part<'a> {
    Text(&'a str),
    /// Without its braces.
    Placeholder(&'a str),
}

/// Whether something in `text` changes.
pub(crate) fn has_placeholder(text: &str) -> bool {
    let mut parts = parts(text).into_iter();
    parts.any(|part| matches!(part, Part::Placeholder(_)))
}

/// The parts of `text`. Braces around anything else are text: JSON has many.
fn parts(text: &str) -> Vec<Part<'_>> {
    let (mut parts, mut from, mut at) = (Vec::new(), 0, 0);
    while let Some(open) = text[at..].find('{').map(|open| at + open) {
        let rest = &text[open + 1..];
        let is_placeholder = ["seq}", "uuid}", "rand:", "csv:", "var:"]
            .iter()
            .any(|known| rest.starts_with(known));
        match rest.find('}').filter(|_| is_placeholder) {
            Some(length) => {
                if from < open {
                    parts.push(Part::Text(&text[from..open]));
                }
                parts.push(Part::Placeholder(&rest[..length]));
                at = open + 1 + length + 1;
                from = at;
            }
            None => at = open + 1,
        }
    }
    if from < text.len() {
        parts.push(Part::Text(&text[from..]));
    }
    parts
}

impl Templates {
    /// For requests of virtual users that take `variables` from responses.
    pub(crate) fn new(variables: Vec<String>) -> Self {
        Self {
            variables,
            ..Self::default()
        }
    }

    /// The template of `text`; `None` where nothing in it changes.
    pub(crate) fn parse(&mut self, text: &str) -> Result<Option<Template>, PlanError> {
        let parts = parts(text);
        if !parts
            .iter()
            .any(|part| matches!(part, Part::Placeholder(_)))
        {
            return Ok(None);
        }
        let pieces = parts.into_iter().map(|part| match part {
            Part::Text(text) => Ok(Piece::Text(text.into())),
            Part::Placeholder(name) => self.piece(name, false),
        });
        pieces.collect::<Result<_, _>>().map(Template).map(Some)
    }

    /// The template of `body`, which need not be text.
    pub(crate) fn parse_body(&mut self, body: &[u8]) -> Result<Option<Template>, PlanError> {
        match str::from_utf8(body) {
            Ok(text) => self.parse(text),
            Err(_) => Ok(None),
        }
    }

    /// A URL, with the template of its path and query where something in them changes; the URL's own
    /// are then those of the first request.
    pub(crate) fn parse_url(&mut self, text: &str) -> Result<(Url, Option<Template>), PlanError> {
        let (mut marked, mut names) = (String::new(), Vec::new());
        for part in parts(text) {
            match part {
                Part::Text(text) => marked.push_str(text),
                Part::Placeholder(name) => {
                    marked.push_str(MARK);
                    names.push(name);
                }
            }
        }
        // What is wrong is told of the URL as it was written.
        let mut url = parse_url(&marked).or_else(|_| parse_url(text))?;
        if names.is_empty() {
            return Ok((url, None));
        }
        let target = url[Position::BeforePath..Position::AfterQuery].to_owned();
        let mut texts = target.split(MARK);
        if target.matches(MARK).count() != names.len() {
            return usage(format!(
                "{text:?}: {{{}}} stands outside of path and query: which server a request goes to does not change",
                names[0]
            ));
        }
        let mut pieces: Vec<_> = texts
            .next()
            .map(|text| Piece::Text(text.into()))
            .into_iter()
            .collect();
        for (name, text) in names.iter().zip(texts) {
            pieces.push(self.piece(name, true)?);
            if !text.is_empty() {
                pieces.push(Piece::Text(text.into()));
            }
        }
        let template = Template(pieces);
        let first = template.first();
        let (path, query) = match first.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (&*first, None),
        };
        url.set_path(path);
        url.set_query(query);
        Ok((url, Some(template)))
    }

    fn piece(&mut self, name: &str, in_url: bool) -> Result<Piece, PlanError> {
        self.salt += 1;
        let salt = self.salt;
        match name.split_once(':') {
            None if name == "seq" => Ok(Piece::Sequence),
            None => Ok(Piece::Uuid { salt }),
            Some(("rand", range)) => {
                let ends = range.split_once('-').and_then(|(low, high)| {
                    let (low, high) = (low.parse().ok()?, high.parse().ok()?);
                    (low <= high).then_some((low, high))
                });
                match ends {
                    Some((low, high)) => Ok(Piece::Random { low, high, salt }),
                    None => usage(format!(
                        "{{{name}}} is not a range of whole numbers: write for example {{rand:1-1000}}"
                    )),
                }
            }
            Some(("var", variable)) => self.variable(variable, in_url),
            Some((_, source)) => self.column(name, source, in_url).map(Piece::Column),
        }
    }

    fn variable(&self, name: &str, in_url: bool) -> Result<Piece, PlanError> {
        match self.variables.iter().position(|known| known == name) {
            Some(index) => Ok(Piece::Variable { index, in_url }),
            None if self.variables.is_empty() => usage(format!(
                "{{var:{name}}} is what a step of a scenario takes from a response, and no step takes any"
            )),
            None => usage(format!(
                "{{var:{name}}}: no step of the scenario takes {name:?} from a response; taken are {}",
                self.variables.join(", ")
            )),
        }
    }

    /// The values of a column, `FILE:COLUMN`.
    fn column(
        &mut self,
        name: &str,
        source: &str,
        in_url: bool,
    ) -> Result<Arc<[Box<str>]>, PlanError> {
        let key = format!("{in_url}:{source}");
        if let Some((_, values)) = self.columns.iter().find(|(known, _)| *known == key) {
            return Ok(Arc::clone(values));
        }
        let Some((file, column)) = source.rsplit_once(':').filter(|(file, _)| !file.is_empty())
        else {
            return usage(format!(
                "{{{name}}} names no column: write for example {{csv:users.csv:name}}"
            ));
        };
        let environment = |error: &dyn std::fmt::Display| {
            PlanError::Environment(format!("{{{name}}}: cannot read {file}: {error}"))
        };
        let bytes = trilane_files::read(Path::new(file)).map_err(|error| environment(&error))?;
        let mut reader = csv::Reader::from_reader(&*bytes);
        let heads = reader.headers().map_err(|error| environment(&error))?;
        let Some(at) = heads.iter().position(|head| head.trim() == column) else {
            let heads: Vec<_> = heads.iter().map(str::trim).collect();
            return usage(format!(
                "{{{name}}}: {file} has no column {column:?} in its first line, which has {}",
                heads.join(", ")
            ));
        };
        let values = reader.records().map(|record| {
            let record = record.map_err(|error| environment(&error))?;
            let value = record.get(at).unwrap_or_default();
            Ok(if in_url {
                utf8_percent_encode(value, UNRESERVED).to_string().into()
            } else {
                value.into()
            })
        });
        let values: Arc<[Box<str>]> = values.collect::<Result<_, PlanError>>()?;
        if values.is_empty() {
            return usage(format!(
                "{{{name}}}: {file} has no line below its first, which names the columns"
            ));
        }
        self.columns.push((key, Arc::clone(&values)));
        Ok(values)
    }
}

impl Template {
    /// A text that does not change.
    pub(crate) fn fixed(text: &str) -> Self {
        Self(vec![Piece::Text(text.into())])
    }

    /// The cookies of a virtual user.
    pub(crate) fn cookies() -> Self {
        Self(vec![Piece::Cookies])
    }

    /// Whether nothing in it changes.
    pub(crate) fn is_fixed(&self) -> bool {
        matches!(self.0[..], [Piece::Text(_)])
    }

    /// The text of the first request.
    pub(crate) fn first(&self) -> String {
        let mut out = Vec::new();
        self.write(0, Values::NONE, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Appends the text of the request of this number, with what `values` says.
    pub(crate) fn write(&self, number: u64, values: Values<'_>, out: &mut Vec<u8>) {
        let mut digits = itoa::Buffer::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Sequence => out.extend_from_slice(digits.format(number).as_bytes()),
                Piece::Random { low, high, salt } => {
                    let value = generator(number, *salt).random_range(*low..=*high);
                    out.extend_from_slice(digits.format(value).as_bytes());
                }
                Piece::Uuid { salt } => {
                    let bytes = generator(number, *salt).random();
                    let uuid = Builder::from_random_bytes(bytes).into_uuid();
                    let mut text = uuid::Uuid::encode_buffer();
                    out.extend_from_slice(uuid.hyphenated().encode_lower(&mut text).as_bytes());
                }
                Piece::Column(column) => {
                    let turn = (number % column.len() as u64) as usize;
                    out.extend_from_slice(column[turn].as_bytes());
                }
                Piece::Variable { index, in_url } => {
                    let value = values.variable(*index);
                    if *in_url {
                        let encoded = utf8_percent_encode(value, UNRESERVED);
                        encoded.for_each(|part| out.extend_from_slice(part.as_bytes()));
                    } else {
                        out.extend_from_slice(value.as_bytes());
                    }
                }
                Piece::Cookies => out.extend_from_slice(values.cookies.as_bytes()),
            }
        }
    }

    /// The variables in it, by index.
    pub(crate) fn variables(&self) -> impl Iterator<Item = usize> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Variable { index, .. } => Some(*index),
            _ => None,
        })
    }

    /// After how many requests the values of its columns begin again; 1 where it has none.
    pub(crate) fn period(&self) -> u64 {
        let lengths = self.0.iter().map(|piece| match piece {
            Piece::Column(values) => values.len() as u64,
            _ => 1,
        });
        lengths.max().unwrap_or(1)
    }
}

/// The random numbers of one placeholder in one request.
fn generator(number: u64, salt: u64) -> Pcg64Mcg {
    // Far from each other, as the seeds of one are by its own step.
    Pcg64Mcg::seed_from_u64(number ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::io::Write as _;

    use super::*;

    fn written(text: &str, number: u64) -> String {
        let template = Templates::default().parse(text).unwrap().unwrap();
        let mut out = Vec::new();
        template.write(number, Values::NONE, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn message(text: &str) -> String {
        Templates::default().parse(text).unwrap_err().to_string()
    }

    #[test]
    fn braces_around_anything_else_are_text() {
        for text in [
            "",
            "{}",
            "{\"a\": {\"seq\": 1}}",
            "{seq",
            "{sequence}",
            "{{x}}",
        ] {
            assert!(
                Templates::default().parse(text).unwrap().is_none(),
                "{text}"
            );
        }
        assert_eq!(written("{\"a\": {seq}}", 7), "{\"a\": 7}");
        assert_eq!(written("{{seq}", 7), "{7");
        assert!(
            Templates::default()
                .parse_body(b"\xff{seq}")
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn what_a_request_gets_follows_from_its_number() {
        let text = "{uuid} {uuid} {rand:5-7} {rand:0-18446744073709551615}";
        assert_eq!(written(text, 3), written(text, 3));
        let many: HashSet<_> = (0..1000).map(|number| written(text, number)).collect();
        assert_eq!(many.len(), 1000);
        for number in 0..1000 {
            let text = written(text, number);
            let pieces: Vec<_> = text.split(' ').collect();
            // RFC 9562 §5.4: version 4, variant 10.
            assert_eq!((pieces[0].len(), &pieces[0][14..15]), (36, "4"));
            assert!("89ab".contains(&pieces[0][19..20]), "{text}");
            assert_ne!(pieces[0], pieces[1]);
            assert!(["5", "6", "7"].contains(&pieces[2]), "{text}");
        }
    }

    #[test]
    fn random_numbers_fall_evenly_on_their_range() {
        let mut counts = [0_u32; 10];
        for number in 0..10_000 {
            counts[written("{rand:0-9}", number).parse::<usize>().unwrap()] += 1;
        }
        // χ² with nine degrees of freedom: 27.9 is its 99.9th percentile.
        let off = counts.map(|count| (f64::from(count) - 1000.0).powi(2) / 1000.0);
        assert!(off.iter().sum::<f64>() < 27.9, "{counts:?}");
    }

    #[test]
    fn columns_take_turns_and_are_encoded_in_urls_alone() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "id, name\n1,Ana\n2,\"Ó, b/c\"\n").unwrap();
        let path = file.path().display().to_string();
        let text = format!("{{csv:{path}:name}}");
        let turns: Vec<_> = (0..3).map(|number| written(&text, number)).collect();
        assert_eq!(turns, ["Ana", "Ó, b/c", "Ana"]);

        let mut templates = Templates::default();
        let (url, template) = templates
            .parse_url(&format!(
                "http://a/x y/{{csv:{path}:name}}?id={{csv:{path}:id}}#f"
            ))
            .unwrap();
        assert_eq!(url.as_str(), "http://a/x%20y/Ana?id=1#f");
        let template = template.unwrap();
        assert_eq!(template.period(), 2);
        let mut out = Vec::new();
        template.write(1, Values::NONE, &mut out);
        assert_eq!(out, b"/x%20y/%C3%93%2C%20b%2Fc?id=2");
    }

    #[test]
    fn wrong_placeholders_are_named() {
        for text in ["{rand:7-5}", "{rand:a-b}", "{rand:5}"] {
            assert!(message(text).contains("{rand:1-1000}"), "{text}");
        }
        assert!(message("{csv:users.csv}").contains("names no column"));
        assert!(message("{csv:/no/such.csv:a}").contains("cannot read /no/such.csv"));
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "id,name").unwrap();
        let path = file.path().display();
        let told = message(&format!("{{csv:{path}:nam}}"));
        assert!(
            told.contains("no column \"nam\"") && told.contains("id, name"),
            "{told}"
        );
        let told = message(&format!("{{csv:{path}:name}}"));
        assert!(told.contains("no line below"), "{told}");
        let told = Templates::default()
            .parse_url("http://{seq}.example/")
            .unwrap_err();
        assert!(told.to_string().contains("outside of path and query"));
        let told = Templates::default()
            .parse_url("localhost/{seq}")
            .unwrap_err();
        assert!(
            told.to_string().contains("type http://localhost/{seq}"),
            "{told}"
        );
    }
}
