//! Owns the text of a file of knowledge without what only its checks read (examples, and where a fact was read), and
//! without comments and blanks. That is half of it, and each start of the program parses all that is left.

/// The fields whose values only checks read, by folder. An entry's page shows the first of its `matches`, which stays.
const ONLY_FOR_CHECKS: [(&str, &[&str]); 4] = [
    ("entries", &["matches", "rejects"]),
    ("fixes", &["references"]),
    ("releases", &["example", "references"]),
    ("signs", &["example", "references"]),
];

/// The text of a file in RON as above; `path` is relative to knowledge/. Any other file keeps its text.
pub fn bare(path: &str, text: &str) -> String {
    if !path.ends_with(".ron") {
        return text.to_string();
    }
    let folder = path.split('/').next().unwrap_or_default();
    let left_out = ONLY_FOR_CHECKS.iter().find(|(name, _)| *name == folder).map_or(&[][..], |(_, fields)| *fields);
    let (mut kept, mut rest) = (String::new(), text);
    while let Some(token) = next(&mut rest) {
        kept.push_str(token);
        if rest.starts_with(':') && left_out.contains(&token) {
            kept.push_str(&shortened(&field(&mut rest), token == "matches"));
        }
    }
    kept
}

/// The colon and value of a field as tokens, each with the number of brackets that are open behind it.
fn field<'t>(rest: &mut &'t str) -> Vec<(&'t str, usize)> {
    let (mut tokens, mut depth) = (Vec::new(), 0_usize);
    while depth > 0 || !rest.starts_with([',', ')', ']', '}']) {
        let Some(token) = next(rest) else { break };
        match token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        tokens.push((token, depth));
    }
    tokens
}

/// A field whose list is empty or has its first element only, or whose text is empty.
fn shortened(field: &[(&str, usize)], has_first: bool) -> String {
    if field.get(1).is_none_or(|(opening, _)| *opening != "[") {
        return ":\"\"".to_string();
    }
    let end_of_first = field.iter().position(|(token, depth)| *depth == 1 && *token == ")");
    let kept = match end_of_first {
        Some(end) if has_first => end + 1,
        _ => 2,
    };
    let kept: String = field.iter().take(kept).map(|(token, _)| *token).collect();
    kept + "]"
}

/// The next token: a string, a word or number, or a sign. The blanks and comments behind it are skipped as well.
fn next<'t>(rest: &mut &'t str) -> Option<&'t str> {
    *rest = without_blanks(rest);
    let (token, behind) = rest.split_at_checked(length(rest))?;
    *rest = without_blanks(behind);
    (!token.is_empty()).then_some(token)
}

fn without_blanks(text: &str) -> &str {
    let mut rest = text.trim_start();
    while rest.starts_with("//") {
        rest = rest.split_once('\n').map_or("", |(_, behind)| behind.trim_start());
    }
    rest
}

/// The bytes of the token that the text begins with.
fn length(text: &str) -> usize {
    let behind_r = text.strip_prefix('r').unwrap_or_default();
    let hashes = behind_r.len() - behind_r.trim_start_matches('#').len();
    if let Some(raw) = behind_r.trim_start_matches('#').strip_prefix('"') {
        let end = format!("\"{}", "#".repeat(hashes));
        return raw.find(&end).map_or(text.len(), |inner| 1 + hashes + 1 + inner + end.len());
    }
    if let Some(inner) = text.strip_prefix('"') {
        return 1 + quoted(inner);
    }
    // A raw identifier, `r#text-encoding`, may hold what no other word does.
    let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '_' || hashes > 0 && "#-.+".contains(letter);
    match text.find(|letter| !is_of_word(letter)) {
        Some(0) => text.chars().next().map_or(0, char::len_utf8),
        Some(end) => end,
        None => text.len(),
    }
}

/// The bytes to the end of a string, its closing quote included.
fn quoted(inner: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in inner.char_indices() {
        if letter == '"' && !is_escaped {
            return at + 1;
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    inner.len()
}
