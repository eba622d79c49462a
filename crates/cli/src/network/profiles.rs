//! `trilane network profiles`: kinds of networks, and where their numbers are from.

use clap::Args;
use serde_json::json;
use trilane_network::{Profile, ProfileProperty, RANKS};

/// Show the kinds of networks, what is drawn of them, and where the numbers are from.
///
/// A network such as 4g is drawn anew for each seed, and in experiments for each block; 4g@median is
/// the one in the middle. Settings behind the name take the place of what is drawn: 4g,loss=1%.
#[derive(Args, Clone, Debug)]
pub(super) struct ProfilesArgs {
    /// Only this one
    #[arg(value_name = "NAME", value_parser = profile)]
    name: Option<&'static Profile>,
    /// How to show them: text or json
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"], default_value = "text")]
    format: String,
}

fn profile(name: &str) -> Result<&'static Profile, String> {
    Profile::find(name).ok_or_else(|| {
        let names: Vec<_> = Profile::all().iter().map(|each| each.name).collect();
        format!("there is no such profile, but {}", names.join(", "))
    })
}

pub(super) fn run(args: &ProfilesArgs) -> u8 {
    let shown: Vec<_> = match args.name {
        Some(profile) => vec![profile],
        None => Profile::all().iter().collect(),
    };
    if args.format == "json" {
        let shown: Vec<_> = shown.into_iter().map(described).collect();
        println!(
            "{}",
            json!({"schema": "trilane.network-profiles/1", "profiles": shown})
        );
        return crate::OK;
    }
    for (number, profile) in shown.into_iter().enumerate() {
        if number > 0 {
            println!();
        }
        println!("{}: {}", profile.name, profile.about);
        println!(
            "  {:10} {:>9} {:>9} {:>9} {:>9} {:>9}  source",
            "", "5 %", "25 %", "median", "75 %", "95 %"
        );
        for property in profile.properties {
            let [first, low, median, high, last] = property
                .quantiles
                .map(|value| format!("{value}{}", property.unit));
            println!(
                "  {:10} {first:>9} {low:>9} {median:>9} {high:>9} {last:>9}  {}",
                property.setting, property.source
            );
        }
        if !profile.always.is_empty() {
            println!("  always     {}", profile.always);
        }
    }
    crate::OK
}

fn described(profile: &Profile) -> serde_json::Value {
    let property = |property: &ProfileProperty| {
        json!({
            "setting": property.setting,
            "unit": property.unit,
            "ranks": RANKS,
            "quantiles": property.quantiles,
            "source": property.source,
        })
    };
    json!({
        "name": profile.name,
        "about": profile.about,
        "properties": profile.properties.iter().map(property).collect::<Vec<_>>(),
        "always": profile.always,
    })
}
