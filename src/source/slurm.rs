//! Owns Slurm jobs that ended lately. Slurm is asked only when it is named: its controller is another machine.
//! Formats: slurm.schedmd.com/squeue.html, sacct.html, scontrol.html; tried with 22.05.8 (2026-11-23).

use std::path::PathBuf;

use super::ask::{Ask, Way, argv};
use super::{Kind, Source, Surroundings};
use crate::units::WallTime;

pub(super) fn asks() -> Vec<Ask> {
    // The name is last: it may contain the separator.
    let fields = "JobID,State,ExitCode,End,NodeList,JobName";
    let argv = argv(&["sacct", "-X", "-S", "now-2hours", "-P", "-n", "-o", fields]);
    vec![Ask::Command { kind: Kind::Slurm, argv, parse: jobs }]
}

fn jobs(_: &Surroundings, printed: &str) -> Result<Vec<Source>, String> {
    let mut jobs = Vec::new();
    for row in printed.lines() {
        let fields: Vec<&str> = row.splitn(6, '|').collect();
        let [job, state, code, end, nodes, name] = fields.as_slice() else { continue };
        // "CANCELLED by 1000", "OUT_OF_ME+" in old tables.
        let state = state.split(' ').next().unwrap_or_default();
        // "12_[1-4]" are those of an array that have not begun.
        if job.is_empty() || job.contains('[') || ["COMPLETED", "RUNNING", "PENDING"].contains(&state) {
            continue;
        }
        let title = format!("Slurm job {job} ({name}) on {nodes}, {state}, exit code {code}");
        let ended_at = end.parse().ok().and_then(|end| jiff::Timestamp::from_second(end).ok()).map(WallTime);
        jobs.push(Source { ended_at, ..Source::new(Kind::Slurm, *job, title) });
    }
    Ok(jobs)
}

pub(super) fn way(at: &Surroundings, job: &str) -> Result<Vec<Way>, String> {
    let is_a_number = job.chars().all(|c| c.is_ascii_digit() || ['_', '+', '.'].contains(&c));
    if !is_a_number || at.uid.is_none() {
        return Err("give the job's number: slurm:4711".to_owned());
    }
    // MaxRSS is sampled, so a lower bound; each step's was reached on its MaxRSSNode.
    let fields = "JobID,State,ExitCode,MaxRSS,MaxRSSNode,ReqMem,Elapsed,NodeList";
    Ok(vec![
        Way::Optional(argv(&["sacct", "-j", job, "-P", "-o", fields])),
        Way::AskOr(
            argv(&["scontrol", "-o", "show", "job", job]),
            output_of_job,
            at.folder.join(format!("slurm-{job}.out")),
        ),
    ])
}

/// The files that a job's output went to. scontrol fills in the patterns of their names (`%j`).
fn output_of_job(printed: &str) -> Result<Vec<Way>, String> {
    let row = printed.lines().find(|line| line.contains("JobId=")).ok_or("scontrol printed no job")?;
    let mut files: Vec<PathBuf> = Vec::new();
    for path in [" StdOut=", " StdErr="].into_iter().filter_map(|name| field(row, name)) {
        let path = PathBuf::from(path);
        if path.is_absolute() && path.as_os_str() != "/dev/null" && !files.contains(&path) {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err("the job has no file with its output: it was started by srun or salloc".to_owned());
    }
    Ok(files.into_iter().map(Way::OwnFile).collect())
}

/// The value of a field, up to the next one: a path may contain blanks.
pub(crate) fn field<'r>(row: &'r str, name: &str) -> Option<&'r str> {
    let (_, value) = row.split_once(name)?;
    let next = value.match_indices(' ').map(|(at, _)| at).find(|at| {
        let word = value.get(at + 1..).unwrap_or_default().split(['=', ' ']).next().unwrap_or_default();
        let is_key = word.chars().next().is_some_and(char::is_uppercase) && word.chars().all(char::is_alphanumeric);
        is_key && value.get(at + 1 + word.len()..).is_some_and(|rest| rest.starts_with('='))
    });
    Some(value.get(..next.unwrap_or(value.len())).unwrap_or(value).trim_end())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn jobs_that_did_not_complete_are_listed() {
        let printed = "1|COMPLETED|0:0|1795176000|gpu1|ok\n2|OUT_OF_MEMORY|0:125|1795176000|gpu1|train\n\
                       3|CANCELLED by 1000|0:15|Unknown|gpu2|x\n4|FAILED|1:0|1795176060|gpu2|a|b\n\
                       5_[1-4]|FAILED|0:0|1795176060|gpu2|x\ngarbage\n";
        let found = jobs(&Surroundings::default(), printed).unwrap();
        let ids: Vec<String> = found.iter().map(|job| job.id.to_string()).collect();
        assert_eq!(ids, ["slurm:2", "slurm:3", "slurm:4"]);
        assert!(found[0].ended_at.is_some() && found[1].ended_at.is_none());
        assert!(found[0].title.contains("OUT_OF_MEMORY") && found[0].title.contains("0:125"));
    }

    #[test]
    fn the_output_file_is_the_one_that_slurm_names() {
        let printed = "JobId=2 JobName=train UserId=ada(1000) StdErr=/home/ada/my job/slurm-2.out StdIn=/dev/null StdOut=/home/ada/my job/slurm-2.out\n";
        let ways = output_of_job(printed).unwrap();
        let [Way::OwnFile(path)] = ways.as_slice() else { panic!("{ways:?}") };
        assert_eq!(path, Path::new("/home/ada/my job/slurm-2.out"));
        assert!(output_of_job("slurm_load_jobs error: Invalid job id specified").is_err());
        assert!(output_of_job("JobId=3 StdOut=/dev/null").is_err());
        let at = Surroundings { uid: Some(1000), ..Surroundings::default() };
        assert!(way(&at, "4711; rm -rf ~").is_err() && way(&at, "4711_3").is_ok());
    }
}
