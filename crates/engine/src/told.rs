//! What servers told of themselves, as it travels between machines: members of types of other crates, which know
//! nothing of that.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use trilane_transport::tls::Info;
use trilane_wire::{h2::PeerSettings as H2, h3::PeerSettings as H3};

#[derive(Serialize, Deserialize)]
#[serde(remote = "Info")]
struct InfoMembers {
    version: String,
    cipher: String,
    group: String,
    resumed: bool,
    alpn: Vec<u8>,
    early_data: Option<bool>,
    ech: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "H2")]
struct H2Members {
    header_table_size: u32,
    max_concurrent_streams: Option<u32>,
    initial_window_size: u32,
    max_frame_size: u32,
    max_header_list_size: Option<u32>,
    connect_protocol: bool,
    received: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "H3")]
struct H3Members {
    qpack_max_table_capacity: u64,
    qpack_blocked_streams: u64,
    max_field_section_size: Option<u64>,
    connect_protocol: bool,
    received: bool,
}

/// A module for `#[serde(with)]` on an `Option` of a type whose members are described above.
macro_rules! optional {
    ($module:ident, $type:ty, $members:literal) => {
        pub(crate) mod $module {
            use super::*;

            pub(crate) fn serialize<S: Serializer>(
                told: &Option<$type>,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                #[derive(Serialize)]
                struct Told<'a>(#[serde(with = $members)] &'a $type);
                told.as_ref().map(Told).serialize(serializer)
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Option<$type>, D::Error> {
                #[derive(Deserialize)]
                struct Told(#[serde(with = $members)] $type);
                let told = Option::<Told>::deserialize(deserializer)?;
                Ok(told.map(|Told(told)| told))
            }
        }
    };
}

optional!(tls, Info, "InfoMembers");
optional!(h2, H2, "H2Members");
optional!(h3, H3, "H3Members");
