//! What the comments of `.proto` files say about a descriptor.

use std::collections::HashMap;

use prost_reflect::FileDescriptor;

/// The comments of the files that were asked for so far. Descriptor sets and reflection may come without.
#[derive(Debug, Default)]
pub(super) struct Comments {
    /// By the name of a file, then by the path of a descriptor in it.
    files: HashMap<String, HashMap<Vec<i32>, String>>,
}

impl Comments {
    /// The comment before a descriptor, or behind it.
    pub(super) fn of(&mut self, file: &FileDescriptor, path: &[i32]) -> Option<&str> {
        let comments = self
            .files
            .entry(file.name().to_owned())
            .or_insert_with(|| read(file));
        comments.get(path).map(String::as_str)
    }
}

fn read(file: &FileDescriptor) -> HashMap<Vec<i32>, String> {
    let Some(info) = &file.file_descriptor_proto().source_code_info else {
        return HashMap::new();
    };
    info.location
        .iter()
        .filter_map(|location| {
            let leading = text(location.leading_comments());
            let text = match leading.is_empty() {
                true => text(location.trailing_comments()),
                false => leading,
            };
            (!text.is_empty()).then(|| (location.path.clone(), text))
        })
        .collect()
}

/// A comment without the blank that stands before each line, and without blank lines around it.
fn text(comment: &str) -> String {
    let lines = comment
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned());
    let lines: Vec<String> = lines.collect();
    lines.join("\n").trim().to_owned()
}
