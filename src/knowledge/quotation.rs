//! Owns telling a message from its quotation: source code that a traceback, a diff or an editor shows, and prose
//! between backticks. Both hold messages all the time, and nothing has failed; unless a person reports a whole message so.

use std::sync::OnceLock;

use super::pattern::Pattern;

/// Whether the message is only quoted: in source code that a traceback or an editor shows, or in prose between
/// backticks.
pub fn is_quoted(line: &str, column: usize) -> bool {
    // A log folded into one line by printed `\n`s: only the part with the message counts.
    let from = line.get(..column).and_then(|before| before.rfind("\\n")).map_or(0, |at| at + 2);
    let rest = line.get(from..).unwrap_or(line);
    let to = rest.get(column - from..).and_then(|after| after.find("\\n")).map_or(rest.len(), |at| column - from + at);
    let (line, column) = (rest.get(..to).unwrap_or(rest), column - from);
    static SOURCE: OnceLock<Pattern> = OnceLock::new();
    let source = SOURCE.get_or_init(|| {
        Pattern::from(
            [
                // Behind a diff mark, an arrow, a box border or a line number.
                r"^\s*(?:(?:[-+>|]|│|❱)+\s*)*(?:\d+\s+)?(?:(?:\||│)\s*)*(?:",
                r"(?:raise|return|throw|assert|echo|grep)\b\s*[\w('\x22]",
                r"|(?:if|elif|with|for|while|def|class|except|try|} ?catch)\b.*[:{(,]\s*(?:#.*)?$",
                r"|(?:print|printf|log(?:ger|ging|_\w+)?(?:\.\w+)?|console\.\w+|warnings?\.warn|self\.\w+\.\w+|fprintf|GGML_LOG_\w+|describe|it|expect|pytest\.\w+)\s*\(",
                r"|#(?:define|include|ifdef|ifndef|pragma)\b|(?:std::)?c(?:err|out) ?<<|(?:else )?if ?\(.*\)\s*\{",
                r"|(?:except|catch)\b[^:\n]{0,80}:|.*\bin (?:str|repr)\(|.*[;:]\s+raise \w+\(",
                r"|(?:case|switch|static|const|void|int|auto|let|var|public|private|func|fn)\s.*[;{]\s*$",
                r"|//\s|/\*|\w+\s*=\s*['\x22(]|[fr]?\x22[^\x22]{0,120}\{\w",
                r")|\s{2,}raise [\w.]+\(",
            ]
            .concat(),
        )
    });
    let before = line.get(..column).unwrap_or_default();
    if before.len() < line.len() && source.is_match(line) && !looks_like_output(line) {
        return true;
    }
    is_in_backticks(before, line.get(column..).unwrap_or_default())
}

/// Whether an open backtick with words before it precedes, and what it quotes is no message that somebody reports.
fn is_in_backticks(before: &str, after: &str) -> bool {
    let Some((said, _)) = before.rsplit_once('`') else { return false };
    let fence = said.len() - said.trim_end_matches('`').len();
    let (said, start) = (said.trim_end_matches('`'), said.len() + 1);
    let open = said.matches('`').count() % 2 == 0 || fence == 2;
    let words = said.split_whitespace().filter(|word| word.len() > 1).count();
    let (rest, then) = after.split_once('`').unwrap_or((after, ""));
    let whole = format!("{}{rest}", before.get(start..).unwrap_or_default());
    open && words >= 2 && !is_reported(said, &whole, then)
}

/// Whether prose reports a whole message: it has a class or a figure, somebody met it, and nothing is advised.
fn is_reported(said: &str, message: &str, then: &str) -> bool {
    static WHOLE: OnceLock<Pattern> = OnceLock::new();
    static MET: OnceLock<Pattern> = OnceLock::new();
    static ADVICE: OnceLock<Pattern> = OnceLock::new();
    static EXPLAINED: OnceLock<Pattern> = OnceLock::new();
    let whole = WHOLE.get_or_init(|| {
        Pattern::from(
            r"^\s*(?:[\w.]*(?:Error|Exception|Exit|error|fatal|FATAL|terminate)\b|\w+:)|\d\s*(?:[KMGT]i?B|bytes)\b"
                .to_string(),
        )
    });
    let met = MET.get_or_init(|| {
        Pattern::from(
            [
                r"(?i)\b(?:I|we|my|our|it|this|which|still|always|just|then|now|script|training|run|job|and|but)\b.*",
                r"\b(?:ge?t(?:s|ting)?|got|see|saw|find|found|hit|ran into|run(?:ning)? into|receiv\w+|have|had|having|encounter\w*|fac(?:e|ed|ing)|thr(?:ows?|ew)",
                r"|meet|met|gives?|gave|crash\w*|fail\w*|says?|said|show(?:s|ed|ing)?|print(?:s|ed)|rais(?:es|ed)|report(?:s|ed)|returns?|returned|died|dies|stops?|stopped|result(?:s|ed)?)\b",
                r"|(?i)\b(?:error|exception|message|output|log|following|traceback)s?\W*(?:is|was|below|here|message|log|info|output)?\W*$",
            ]
            .concat(),
        )
    });
    let advice = ADVICE.get_or_init(|| {
        Pattern::from(
            [
                r"(?i)\b(?:if (?:you|it|the|there|a|your|this)|may|might|could|would|can (?:be|see|get|cause|lead|result|happen)|you(?:'ll| will| may| might| can| get| see)",
                r"|how (?:to|do)|to (?:avoid|prevent|fix|solve|handle|catch)|fix(?:e[sd])?|instead of|in case|unless|whenever|sometimes|such as|e\.g\.|like|means?",
                r"|resolv\w+|prevents?|avoid\w*|handles?|catch(?:es)?|when you|often|typical\w*|common\w*|usually|no longer|no more|never|without|used to)\b[^.!?]*$",
            ]
            .concat(),
        )
    });
    let explained = EXPLAINED.get_or_init(|| {
        Pattern::from(
            r"(?i)^[`'\x22\s]*(?:errors?|exceptions?|messages?)?\s*(?:means?|indicates?|is (?:raised|thrown|usually|often|caused)|(?:can|may|might|could|will|should) |usually|occurs?|happens? (?:when|if)|appears? (?:when|if)|, *(?:please )?(?:lower|try|reduce|decrease|set|use|increase|you|then|just|close|restart|see|check)\b)".to_string(),
        )
    });
    whole.is_match(message) && met.is_match(said) && !advice.is_match(said) && !explained.is_match(then)
}

/// `RuntimeError: …` and the like at the line's beginning is output, whatever else the line looks like.
fn looks_like_output(line: &str) -> bool {
    static OUTPUT: OnceLock<Pattern> = OnceLock::new();
    OUTPUT
        .get_or_init(|| Pattern::from(r"^\s*(?:E\s+)?[A-Za-z_][\w.]*(?:Error|Exception|Exit)\b\s*:".to_string()))
        .is_match(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_and_prose_quote() {
        let quoted = [
            r#"--> 444     raise RuntimeError("Insufficient VRAM for model")"#,
            "    except torch.cuda.OutOfMemoryError as e: # CUDA out of memory",
            r#"+    log_debug("Memory pressure for %s is greater","#,
            "    if 'out of memory' in str(e):",
        ];
        for line in quoted {
            assert!(is_quoted(line, 12), "{line}");
        }
        let said = [
            "You may see: `torch.OutOfMemoryError: CUDA out of memory",
            "If you get the error `RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB`, lower the batch size",
            "The message `CUDA out of memory. Tried to allocate 2.00 GiB` means that the card is full",
            "We catch every `RuntimeError: CUDA out of memory` here",
            "I use `torch.cuda.empty_cache` and `CUDA out of memory` handling",
        ];
        for line in said {
            assert!(is_quoted(line, line.find("out of memory").unwrap()), "{line}");
        }
        let reported = [
            "After two epochs I get the error `RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB`",
            "I run ```python run.py``` and get this: ```RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
            "On the second prompt it fails with `torch.OutOfMemoryError: CUDA out of memory.`",
            "Then I saw `CUDA out of memory. Tried to allocate 20.00 MiB` in the log",
        ];
        for line in reported {
            assert!(!is_quoted(line, line.find("out of memory").unwrap()), "{line}");
        }
        let real = [
            "RuntimeError: CUDA out of memory. Tried",
            "E   RuntimeError: CUDA error: out of memory",
            "[rank0]: torch.OutOfMemoryError: CUDA out of memory",
            "| WARNING: ran out of memory",
        ];
        for line in real {
            assert!(!is_quoted(line, 5), "{line}");
        }
    }
}
