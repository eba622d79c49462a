//! `trilane load --compat TOOL -- …`: the command lines of other load generators.
//!
//! Each tool has the subset of its flags that says what is sent, and when. What such a line means is
//! written as one of `trilane load`, which is told, and read in its place. Certificates are verified
//! whatever the tool does: `-k` goes before `--compat`.

mod tools;

use std::ffi::{OsStr, OsString};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, ValueEnum};

use self::tools::{Ab, H2load, Hey, Oha, Wrk};
use crate::tell;

/// A load generator whose command line is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tool {
    Wrk,
    Wrk2,
    H2load,
    Oha,
    Hey,
    Ab,
}

impl Tool {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Wrk => "wrk",
            Self::Wrk2 => "wrk2",
            Self::H2load => "h2load",
            Self::Oha => "oha",
            Self::Hey => "hey",
            Self::Ab => "ab",
        }
    }

    /// The line of `trilane load` that does what `words` say to the tool.
    fn translate(self, words: &[String]) -> Result<Vec<String>, clap::Error> {
        match self {
            Self::Wrk | Self::Wrk2 => self.parse::<Wrk>(words)?.words(self == Self::Wrk2),
            Self::H2load => self.parse::<H2load>(words)?.words(),
            Self::Oha => self.parse::<Oha>(words)?.words(),
            Self::Hey => self.parse::<Hey>(&tools::two_dashes(words))?.words(),
            Self::Ab => self.parse::<Ab>(words)?.words(),
        }
        .map_err(|told| raw(format!("--compat {}: {told}", self.name())))
    }

    fn parse<T: Parser>(self, words: &[String]) -> Result<T, clap::Error> {
        let name = self.name();
        let line = [name.to_owned()].into_iter().chain(words.iter().cloned());
        T::try_parse_from(line).map_err(|error| {
            if error.kind() != ErrorKind::UnknownArgument {
                return error;
            }
            let unknown = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::String(word)) => word.clone(),
                _ => "that".to_owned(),
            };
            // hey has one before its long flags, too.
            let dashes = if self == Self::Hey { "-" } else { "--" };
            let known: Vec<_> = T::command()
                .get_arguments()
                .filter_map(|argument| {
                    let short = argument.get_short().map(|short| format!("-{short}"));
                    short.or_else(|| Some(format!("{dashes}{}", argument.get_long()?)))
                })
                .collect();
            raw(format!(
                "--compat {name}: {unknown} is not among what is understood of {name}: {}",
                known.join(" ")
            ))
        })
    }
}

/// The arguments of the program, with what stands behind `--compat TOOL --` in the words of
/// `trilane load`; unchanged where it does not stand there.
pub(crate) fn expanded(arguments: Vec<OsString>) -> Result<Vec<OsString>, clap::Error> {
    let is = |at: usize, word: &str| arguments.get(at).is_some_and(|other| other == word);
    let Some(end) = arguments.iter().position(|word| word == "--") else {
        return Ok(arguments);
    };
    let flag = (2..end).find(|&at| is(at, "--compat"));
    // What has no such name is refused where the flags of `load` are read.
    let tool = flag
        .and_then(|at| arguments.get(at + 1))
        .and_then(|name| Tool::from_str(name.to_str()?, false).ok());
    let (Some(at), Some(tool), true) = (flag, tool, is(1, "load")) else {
        return Ok(arguments);
    };
    let words: Option<Vec<_>> = arguments[end + 1..]
        .iter()
        .map(|word| word.to_str().map(str::to_owned))
        .collect();
    let words =
        words.ok_or_else(|| raw("--compat: a word of the command line is not UTF-8".into()))?;
    let meant = tool.translate(&words)?;
    let own = [&arguments[..at], &arguments[at + 2..end]].concat();
    let told: Vec<_> = own[2..]
        .iter()
        .map(OsString::as_os_str)
        .chain(meant.iter().map(OsStr::new))
        .map(|word| quoted(&trilane_text::command(&word.to_string_lossy())))
        .collect();
    tell(format_args!("trilane load {}", told.join(" ")));
    Ok(own
        .into_iter()
        .chain(meant.into_iter().map(OsString::from))
        .collect())
}

/// What to type where the flag stands without the line that it is about.
pub(crate) fn how(tool: Tool) -> String {
    let name = tool.name();
    let line = match tool {
        Tool::Wrk => "-t2 -c100 -d30s",
        Tool::Wrk2 => "-t2 -c100 -d30s -R2000",
        Tool::H2load => "-n 10000 -c 10 -m 100",
        Tool::Oha => "-n 10000 -c 100",
        Tool::Hey => "-n 10000 -c 100",
        Tool::Ab => "-n 10000 -c 100 -k",
    };
    format!(
        "--compat {name} takes {name}'s command line behind --: type trilane load --compat {name} -- {line} http://127.0.0.1:8080/"
    )
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@,+%".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn raw(told: String) -> clap::Error {
    clap::Error::raw(ErrorKind::InvalidValue, told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(line: &str) -> Result<String, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let expanded = expanded(words).map_err(|error| error.to_string())?;
        let words: Vec<_> = expanded.iter().map(|word| word.to_string_lossy()).collect();
        Ok(words.join(" "))
    }

    #[test]
    fn lines_of_other_tools_are_lines_of_ours() {
        for (theirs, ours) in [
            (
                "wrk -- -t4 -c100 -d30s --latency -H a:b http://a/",
                "--h1 --warmup 0s -c 100 -t 4 -d 30s --timeout 2s -H a:b http://a/",
            ),
            (
                "wrk2 -- -c 8 -R 2k --timeout=5s http://a/",
                "--h1 --warmup 0s -c 8 -t 2 -d 10s --timeout 5s -R 2k http://a/",
            ),
            (
                "h2load -- -n1000 -c10 -m 100 http://a/x",
                "--h2c -c 10 -m 100 -t 1 -n 1000 http://a/x",
            ),
            (
                "h2load -- -D 10 --warm-up-time=2 -c10 --h1 -d f -w20 https://a/ https://a/b",
                "--h1 -c 10 -t 1 -d 10 --warmup 2 --stream-window 1048575 -b @f https://a/ https://a/b",
            ),
            (
                "oha -- -z 10s -c 20 -p 5 -q 100 --http2 -m PUT -d hi -T text/plain https://a/",
                "--h2 --warmup 0s -c 20 -m 5 -d 10s -R 100 -X PUT -b hi -H content-type:text/plain https://a/",
            ),
            (
                "oha -- --http-version 3 https://a/",
                "--h3 -c 50 -m 1 -n 200 https://a/",
            ),
            (
                "hey -- -n 500 -c 10 -q 5 -disable-keepalive -t 3 http://a/",
                "--h1 -c 10 -n 500 -R 50 --timeout 3s --new-connections http://a/",
            ),
            (
                "hey -- -h2 -z 5s -c 4 https://a/",
                "--h2 --warmup 0s -c 4 -d 5s --timeout 20s https://a/",
            ),
            (
                "ab -- -n 100 -c 10 -k -A user:pass http://a/",
                "--h1 -c 10 -n 100 --timeout 30s -H authorization:Basic dXNlcjpwYXNz http://a/",
            ),
            (
                "ab -- -t 5 -c 2 -p f -T text/plain http://a/",
                "--h1 -c 2 -d 5 --warmup 0s --timeout 30s --new-connections -X POST -b @f -H content-type:text/plain http://a/",
            ),
        ] {
            assert_eq!(
                meant(&format!("trilane load -k --compat {theirs}")),
                Ok(format!("trilane load -k {ours}")),
            );
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let refused = |line: &str| meant(&format!("trilane load --compat {line}")).unwrap_err();
        let script = refused("wrk -- -s post.lua http://a/");
        assert!(
            script.contains("--compat wrk: -s is not among what is understood of wrk"),
            "{script}"
        );
        assert!(script.contains("-c -d -t -H"), "{script}");
        assert!(refused("wrk -- -R 5 http://a/").contains("--compat wrk2"));
        assert!(refused("wrk2 -- http://a/").contains("-R"));
        assert!(refused("hey -- -x proxy:80 http://a/").contains("-x"));
    }

    #[test]
    fn other_lines_stay_as_they_are() {
        for line in [
            "trilane load http://a/",
            "trilane load --compat nothing -- http://a/",
            "trilane load --compat wrk",
            "trilane serve --compat wrk -- http://a/",
            "trilane load -- --compat wrk http://a/",
        ] {
            assert_eq!(meant(line), Ok(line.to_owned()));
        }
    }
}
