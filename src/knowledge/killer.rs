//! Owns who killed a process. SIGKILL, exit code 137 and `Killed` alone may mean that memory ran out; they do not where the
//! log says who sent the signal and why: a failed probe, a stop that took too long, a time limit, a person.

use super::entry::Entry;
use super::matching::Hit;

/// The hits without the kills that another message explains.
pub(super) fn unexplained(entries: &[Entry], hits: &[Hit]) -> Vec<Hit> {
    let reaches: Vec<(usize, usize)> = hits.iter().filter_map(|hit| reach(entries.get(hit.entry)?, hit.line)).collect();
    hits.iter().filter(|hit| !is_bare_kill(entries, hit) || !is_within(&reaches, hit.line)).cloned().collect()
}

fn is_bare_kill(entries: &[Entry], hit: &Hit) -> bool {
    entries.get(hit.entry).is_some_and(|entry| entry.bare_kill)
}

fn is_within(reaches: &[(usize, usize)], line: usize) -> bool {
    reaches.iter().any(|(first, last)| (*first..=*last).contains(&line))
}

/// The lines on which a kill is the one that this entry's message explains.
fn reach(entry: &Entry, line: usize) -> Option<(usize, usize)> {
    let (above, below) = entry.explains_kills?;
    Some((line.saturating_sub(above), line.saturating_add(below)))
}

#[cfg(test)]
mod tests {
    use crate::knowledge::KnowledgeBase;
    use crate::knowledge::diagnosis::Oom;
    use crate::log::PastedLog;

    #[test]
    fn a_kill_is_explained_only_near_the_word_of_who_did_it() {
        let base = KnowledgeBase::built_in().unwrap();
        let stop = "systemd[1]: a.service: State 'stop-sigterm' timed out. Killing.\n";
        let kill = "systemd[1]: a.service: Main process exited, code=killed, status=9/KILL\n";
        let answer = |log: String| base.diagnose(&PastedLog::new(log), None).oom;
        assert_eq!(answer(kill.to_owned()), Oom::Maybe);
        assert_eq!(answer(format!("{stop}{kill}")), Oom::No);
        let work = "systemd[1]: Started a.service.\n".repeat(50);
        assert_eq!(answer(format!("{stop}{kill}{work}{kill}")), Oom::Maybe, "the second one is another kill");
        let memory = "kernel: Out of memory: Killed process 81 (a) total-vm:9kB, anon-rss:8kB, file-rss:0kB\n";
        assert_eq!(answer(format!("{memory}{stop}{kill}")), Oom::Yes);
    }
}
