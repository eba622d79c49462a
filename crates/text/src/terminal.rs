//! What a terminal would obey: control characters, and marks that turn the order of text around.

/// One line of text, such as a value inside a message: nothing in it moves the cursor.
pub fn line(text: &str) -> String {
    text.chars().map(|c| shown(c, false)).collect()
}

/// Text of several lines: newlines and tabs stay.
pub fn lines(text: &str) -> String {
    text.chars().map(|c| shown(c, true)).collect()
}

fn shown(c: char, has_lines: bool) -> char {
    let stays = has_lines && matches!(c, '\n' | '\t');
    // Text that runs backwards looks like other text (Unicode TR36, 3.2).
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if turns || (c.is_control() && !stays) {
        '\u{fffd}'
    } else {
        c
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_the_cursor() {
        let text = "a\x1b]0;x\x07\u{9b}31m\u{202e}\r\n\tb";
        let bare = "a\u{fffd}]0;x\u{fffd}\u{fffd}31m\u{fffd}\u{fffd}";
        assert_eq!(lines(text), format!("{bare}\n\tb"));
        assert_eq!(line(text), format!("{bare}\u{fffd}\u{fffd}b"));
        assert_eq!(line("zwölf µs → 3"), "zwölf µs → 3");
    }
}
