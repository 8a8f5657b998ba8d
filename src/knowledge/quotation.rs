//! Owns telling a message from its quotation: source code that a traceback, a diff or an editor shows, and prose
//! between backticks. Both hold messages all the time, and nothing has failed.

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
    is_in_backticks(before)
}

/// Whether an open backtick with words before it precedes.
fn is_in_backticks(before: &str) -> bool {
    let Some((said, _)) = before.rsplit_once('`') else { return false };
    said.matches('`').count() % 2 == 0 && said.split_whitespace().filter(|word| word.len() > 2).count() >= 2
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
        let said = "You may see: `torch.OutOfMemoryError: CUDA out of memory";
        assert!(is_quoted(said, 38));
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
