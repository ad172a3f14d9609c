//! Rust source with its comments and literals blanked out, so that words can be looked for in code alone.

/// The source with the same lines and columns, where comments, strings and characters are spaces.
pub(super) fn code_only(source: &str) -> String {
    let mut rest = source;
    let mut code = String::with_capacity(source.len());
    while let Some(first) = rest.chars().next() {
        let blanked = literal_or_comment(rest, code.chars().next_back());
        if blanked > 0 {
            code.extend(rest[..blanked].chars().map(|it| if it == '\n' { '\n' } else { ' ' }));
            rest = &rest[blanked..];
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    code
}

/// Whether a line of code holds this word by itself, not as a part of a longer name.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let is_name = |it: char| it.is_alphanumeric() || it == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].chars().next_back().is_some_and(is_name)
            && !line[at + word.len()..].chars().next().is_some_and(is_name)
    })
}

/// How many bytes a comment or a literal takes at the start of `rest`; zero where it is plain code.
fn literal_or_comment(rest: &str, before: Option<char>) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment(rest);
    }
    if rest.starts_with('"') {
        return quoted(rest, 1);
    }
    if rest.starts_with('\'') {
        return character(rest);
    }
    let starts_a_word = !before.is_some_and(|it| it.is_alphanumeric() || it == '_');
    if starts_a_word && rest.starts_with(['r', 'b', 'c']) { prefixed(rest) } else { 0 }
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn quoted(rest: &str, start: usize) -> usize {
    let mut escaped = false;
    for (at, it) in rest[start..].char_indices() {
        match it {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return start + at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A character literal; a lifetime (`'a`) is code.
fn character(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => rest[3..].find('\'').map_or(rest.len(), |at| at + 4),
        Some(_) => match chars.next() {
            Some((at, '\'')) => at + 1,
            _ => 0,
        },
        None => 0,
    }
}

/// `r"…"`, `r#"…"#`, `b"…"`, `c"…"` and their like.
fn prefixed(rest: &str) -> usize {
    let letters = rest.find(|it| !matches!(it, 'r' | 'b' | 'c')).unwrap_or(rest.len());
    let hashes = rest[letters..].chars().take_while(|it| *it == '#').count();
    let open = letters + hashes;
    if letters > 2 || !rest[open..].starts_with('"') {
        return 0;
    }
    if !rest[..letters].contains('r') {
        return if hashes == 0 { quoted(rest, open + 1) } else { 0 };
    }
    let close = format!("\"{}", "#".repeat(hashes));
    rest[open + 1..].find(&close).map_or(rest.len(), |at| open + 1 + at + close.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_left(source: &str) -> Vec<String> {
        code_only(source).split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn comments_and_literals_vanish() {
        assert_eq!(words_left("a // unsafe\nb /* unsafe /* x */ y */ c"), ["a", "b", "c"]);
        assert_eq!(words_left("a \"unsafe \\\" unsafe\" b"), ["a", "b"]);
        assert_eq!(words_left("a r#\"unsafe \" unsafe\"# b br\"x\" c\"y\" d"), ["a", "b", "d"]);
        assert_eq!(words_left("a '\"' b '\\'' c '\\u{1f}' d"), ["a", "b", "c", "d"]);
    }

    #[test]
    fn lifetimes_and_names_stay() {
        assert_eq!(words_left("fn f<'a>(x: &'a str) -> r#type"), ["fn", "f<'a>(x:", "&'a", "str)", "->", "r#type"]);
        assert_eq!(words_left("bar crab \"x\""), ["bar", "crab"]);
    }

    #[test]
    fn lines_keep_their_numbers() {
        assert_eq!(code_only("\"a\nb\"\nc").lines().count(), 3);
    }

    #[test]
    fn a_word_is_not_a_part_of_a_name() {
        assert!(has_word("unsafe { x }", "unsafe"));
        assert!(!has_word("#![forbid(unsafe_code)]", "unsafe"));
    }
}
