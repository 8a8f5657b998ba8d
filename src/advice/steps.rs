//! Owns the plan: which steps are offered for a case and its causes, in which order. Sources propose steps, named rules
//! remove some, named placements order the rest. A step that would terminate a process carries its identity; the plan
//! itself signals nothing.

mod conditions;
mod enough;
mod fixes;
mod form;
mod look;
mod order;
mod outlook;
mod owners;
pub mod planned;
mod processes;
mod request;
mod retry;
mod share;
mod template;
mod together;
mod values;
mod vetoes;

use self::conditions::Holds;
use self::order::Offer;
use self::outlook::Outlook;
use self::planned::{Enough, NotOffered, PlannedFix};
use super::case::Case;
use super::fit::FitChoice;
use super::verdict::{Cause, CauseKind};
use crate::knowledge::{Condition, Fix, FixId, Oom, Shown};
use crate::units::Bytes;

/// So many changes of the run are offered at once; more come up as these are left behind.
const MOST_CHANGES: usize = 6;

/// So many steps whose conditions are not known are shown at most.
const MOST_CONDITIONAL: usize = 2;

/// The steps of a case, and what was not offered.
#[derive(Debug, Default)]
pub struct Plan {
    pub steps: Vec<PlannedFix>,
    pub not_offered: Vec<NotOffered>,
    /// Whether it is known by the model's sums that no set of the steps is enough.
    pub is_hopeless: bool,
    /// What the step that makes several changes does for the model.
    pub fits_with: Option<FitChoice>,
}

/// Lays out the steps.
pub fn plan(case: &Case<'_>, causes: &[Cause]) -> Plan {
    let run_again = retry::run_again(case, causes);
    let outlook = Outlook::new(case, causes, run_again.is_some());
    let mut collected = Collected::default();
    if case.log.oom == Oom::No {
        // No memory ran out, so neither another try nor a process that ends would help: only what the entry names.
        case.situation.fixes.iter().for_each(|fix| collected.add_fix(fix, &outlook, false));
    } else {
        collected.offers.extend(first_step(run_again, &outlook).map(Offer::of));
        for fix in case.situation.fixes {
            collected.add(fix, &outlook);
        }
    }
    collected.into_plan(&outlook)
}

/// The step that tries the run again before more is changed. With a retry under way there is nothing to start.
fn first_step(run_again: Option<PlannedFix>, outlook: &Outlook<'_, '_>) -> Option<PlannedFix> {
    let case = outlook.case;
    if case.retry.is_some() {
        return None;
    }
    if case.situation.taken.enough {
        return Some(retry::run_now(case));
    }
    if run_again.is_some() {
        return run_again;
    }
    if outlook.has_freed_enough {
        return Some(retry::run_now(case));
    }
    retry::fresh_start(case, outlook.causes)
}

/// What the sources propose, in the entry's order.
#[derive(Default)]
struct Collected {
    offers: Vec<Offer>,
    not_offered: Vec<NotOffered>,
    /// Whether there is a step already whose condition is a version that the log does not print.
    asks_for_a_version: bool,
}

impl Collected {
    fn add(&mut self, fix: &Fix, outlook: &Outlook<'_, '_>) {
        let is_answer = vetoes::answers(fix, outlook);
        if let Some(sign) = withheld_by(fix.id, outlook) {
            self.reject(fix.id, &format!("the log shows that {}", sign.that));
        } else if let Some(rule) = vetoes::of_fix(fix, outlook) {
            self.reject(fix.id, rule);
        } else if fix.when.contains(&Condition::HolderAlive) {
            self.add_processes(fix, outlook, is_answer);
        } else if let Some(request) = request::request(fix, outlook.case) {
            self.offers.push(Offer { is_answer, ..Offer::of(request) });
        } else {
            self.add_fix(fix, outlook, is_answer);
        }
    }

    /// The steps about processes, and those to wait for busy ones and to ask other users.
    fn add_processes(&mut self, fix: &Fix, outlook: &Outlook<'_, '_>, is_answer: bool) {
        let steps = processes::steps(fix, outlook);
        if steps.is_empty() {
            self.reject(fix.id, "no process here that uses memory which the run needs may be offered");
        }
        let steps = steps.into_iter().map(|offer| Offer { is_answer: is_answer && !offer.may_be_busy, ..offer });
        let others = owners::wait_or_ask(outlook.case).into_iter().map(Offer::of);
        for offer in steps.chain(others) {
            match vetoes::of_process_step(&offer.planned, outlook) {
                Some(vetoes::TOO_LARGE) if helps_beside_a_change(&offer, outlook) => {
                    let planned = offer.planned.only("if no change of the run is enough");
                    self.offers.push(Offer { planned, is_answer: false, ..offer });
                }
                Some(rule) => self.reject(offer.planned.fix, rule),
                None => self.offers.push(offer),
            }
        }
    }

    fn add_fix(&mut self, fix: &Fix, outlook: &Outlook<'_, '_>, is_answer: bool) {
        let signs = outlook.case.log.signs.iter().flat_map(|sign| sign.fixes.iter().map(move |id| (sign, *id)));
        let (shown, sign) =
            signs.enumerate().find(|(_, (_, id))| *id == fix.id).map(|(at, (sign, _))| (at, sign)).unzip();
        let of_sign = sign.and_then(|sign| sign.condition.as_deref());
        if of_sign.is_some() && std::mem::replace(&mut self.asks_for_a_version, true) {
            return self.reject(fix.id, "another step asks for the version already");
        }
        let condition = match conditions::of_fix(fix, outlook) {
            Holds::Yes => of_sign,
            Holds::No(rule) => return self.reject(fix.id, rule),
            Holds::Unknown(condition) => Some(condition),
        };
        match fixes::filled(fix, outlook.case) {
            Ok(planned) => {
                let planned = match condition {
                    Some(condition) => PlannedFix { is_of_a_version: of_sign.is_some(), ..planned.only(condition) },
                    None => planned,
                };
                let because = sign.map(|sign| sign.that.clone());
                let named = sign
                    .map_or(outlook.case.situation.fixes.first().map(|fix| fix.id), |sign| sign.fixes.first().copied());
                let is_named_first = named == Some(fix.id);
                let version_matters = sign.is_some_and(|sign| sign.version_matters);
                let planned = PlannedFix { because, ..planned };
                self.offers.push(Offer { is_answer, shown, is_named_first, version_matters, ..Offer::of(planned) });
            }
            Err(rule) => self.reject(fix.id, rule),
        }
    }

    fn reject(&mut self, fix: FixId, rule: &str) {
        self.not_offered.push(NotOffered { fix, rule: rule.to_owned() });
    }

    /// The fixes that are the same change as a step without a condition, in different words.
    fn replaced(&self, fixes: &[Fix]) -> Vec<FixId> {
        let certain = self.offers.iter().filter(|offer| offer.planned.condition.is_none());
        let certain: Vec<FixId> = certain.map(|offer| offer.planned.fix).collect();
        let replacing = fixes.iter().filter(|fix| certain.contains(&fix.id));
        replacing.flat_map(|fix| fix.replaces.iter().copied()).collect()
    }

    /// Removes the steps of these fixes.
    fn leave_out(&mut self, fixes: &[FixId], rule: &str) {
        let gone: Vec<Offer> = self.offers.extract_if(.., |offer| fixes.contains(&offer.planned.fix)).collect();
        gone.iter().for_each(|offer| self.reject(offer.planned.fix, rule));
    }

    /// Keeps one change of version: an update that comes first for another reason says in its note which bug of some
    /// versions may be behind the failure, and any other gives way to the step about that bug.
    fn leave_one_update(&mut self, fixes: &[Fix]) {
        let Some(of_bug) = self.offers.iter().position(|offer| offer.planned.is_of_a_version) else { return };
        let id = self.offers.get(of_bug).map(|offer| offer.planned.fix);
        let replaced =
            fixes.iter().find(|fix| Some(fix.id) == id).map(|fix| fix.replaces.as_slice()).unwrap_or_default();
        let general = self.offers.iter().position(|offer| replaced.contains(&offer.planned.fix));
        let Some(general) = general else { return };
        let is_asked_for = self.offers.get(general).is_some_and(Offer::asks_for_a_version);
        let gone = self.offers.remove(if is_asked_for { of_bug } else { general });
        self.reject(gone.planned.fix, "another step is the same change");
        if is_asked_for && let Some(kept) = self.offers.iter_mut().find(|offer| replaced.contains(&offer.planned.fix)) {
            kept.planned.note(&gone.planned.title);
        }
    }

    fn into_plan(mut self, outlook: &Outlook<'_, '_>) -> Plan {
        let case = outlook.case;
        let is_asked = case.log.oom != Oom::No
            && outlook.is_led_by(CauseKind::OtherProcess)
            && withheld_by(FixId::LOOK_THERE, outlook).is_none();
        // What the log shows the others to be is known: the run's own workers, for one.
        let is_known = self.offers.iter().any(|offer| offer.shown.is_some() && offer.is_answer);
        if is_asked && !is_known && !self.offers.iter().any(is_certain_about_others) {
            self.offers.extend(look::who_uses_it(case).map(Offer::of));
        }
        self.leave_out(&self.replaced(case.situation.fixes), "another step is the same change");
        self.leave_one_update(case.situation.fixes);
        // Those without a file; `vetoes` has removed the others.
        self.leave_out(case.situation.tried, vetoes::WAS_TRIED);
        let mut offers = order::placed(std::mem::take(&mut self.offers), outlook);
        let mut conditional = 0;
        offers.retain(|offer| {
            let Some(condition) = &offer.planned.condition else { return true };
            conditional += 1;
            if conditional > MOST_CONDITIONAL {
                self.reject(offer.planned.fix, &format!("only {condition}, which is not known"));
            }
            conditional <= MOST_CONDITIONAL
        });
        let mut steps: Vec<PlannedFix> = offers.into_iter().map(|offer| offer.planned).collect();
        let (is_hopeless, fits_with) = enough::decide(&mut steps, outlook);
        self.shorten(&mut steps, MOST_CHANGES + case.situation.taken.left);
        Plan { steps, not_offered: self.not_offered, is_hopeless, fits_with }
    }

    /// Removes the changes of the run behind the first of them, but none that may be enough, if only RAM had room.
    fn shorten(&mut self, steps: &mut Vec<PlannedFix>, most: usize) {
        let mut changes = 0;
        steps.retain(|step| {
            changes += usize::from(!is_about_the_machine(step));
            let is_reckoned = step.may_be_enough || matches!(step.enough, Enough::LacksRam { .. });
            let stays = is_about_the_machine(step) || is_reckoned || changes <= most;
            if !stays {
                self.reject(step.fix, "so many steps that are likelier to help come first");
            }
            stays
        });
    }
}

/// Whether an idle process uses most of what is short by the log, where the model would fit an empty GPU after a change:
/// its weights alone are not more than the GPU has.
fn helps_beside_a_change(offer: &Offer, outlook: &Outlook<'_, '_>) -> bool {
    let short = outlook.case.short_by_ledger().filter(|short| *short > Bytes::ZERO);
    let frees_most = offer.planned.frees_bytes.zip(short).is_some_and(|(frees, short)| frees >= Bytes(short.0 / 4 * 3));
    frees_most && !offer.may_be_busy && !outlook.has_weights_beyond()
}

/// The sign because of which a fix changes nothing.
fn withheld_by<'o>(fix: FixId, outlook: &Outlook<'o, '_>) -> Option<&'o Shown> {
    outlook.case.log.signs.iter().find(|sign| sign.withholds.contains(&fix))
}

/// Whether a step deals with who uses the GPU, whichever of several it is.
fn is_certain_about_others(offer: &Offer) -> bool {
    offer.planned.condition.is_none() && order::is_about_others(&offer.planned)
}

/// Whether a step is about processes, other GPUs or another try rather than a change of the run.
fn is_about_the_machine(step: &PlannedFix) -> bool {
    step.is_about_a_process() || step.room_on.is_some() || FixId::WITHOUT_FILE.contains(&step.fix)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::advice::testing::torch_oom;
    use crate::advice::{Advice, Situation, Taken, advise};
    use crate::gpu::guard::Viewer;
    use crate::gpu::history::History;
    use crate::gpu::testing::{device, noon_plus, process, snapshot};
    use crate::gpu::{Device, GpuProcess, ProcessKey, Reading, Snapshot, Vantage};
    use crate::knowledge::diagnosis::Diagnosis;
    use crate::knowledge::fix::substitute;
    use crate::knowledge::fix::{FixCommand, Frees, Safety};

    fn fix(id: &str, when: Vec<Condition>, commands: &[(&str, &str)]) -> Fix {
        Fix {
            stages: vec![],
            not_stages: vec![],
            id: FixId::new(id),
            title: format!("{id} it"),
            safety: Safety::LosesWork,
            memory: vec![],
            phases: vec![],
            when,
            not_for: vec![],
            covers: vec![],
            replaces: vec![],
            leads: crate::knowledge::fix::Leads::default(),
            moves: crate::knowledge::fix::Moves::default(),
            frees: Frees::Unknown,
            why: "w".into(),
            expect: "e".into(),
            if_not: "n".into(),
            costs: "c".into(),
            commands: commands
                .iter()
                .map(|(program, command)| FixCommand {
                    program: (*program).into(),
                    action: "Do it".into(),
                    command: Some((*command).into()),
                    ..FixCommand::default()
                })
                .collect(),
            references: vec![],
        }
    }

    /// What was watched of these devices in 20 s without any use.
    fn watched(here: &Snapshot) -> History {
        let mut history = History::default();
        history.note(&Snapshot { taken_at: noon_plus(-20), ..here.clone() });
        history.note(here);
        history
    }

    fn plan(diagnosis: &Diagnosis, fixes: &[Fix], devices: Vec<Device>) -> Advice {
        let viewer = Viewer { uid: 1000, lineage: vec![900, 1], ..Viewer::default() };
        plan_for(diagnosis, fixes, devices, &viewer)
    }

    fn plan_for(diagnosis: &Diagnosis, fixes: &[Fix], devices: Vec<Device>, viewer: &Viewer) -> Advice {
        let here = Snapshot { devices, ..snapshot(0) };
        let history = watched(&here);
        advise(&Situation {
            fixes,
            snapshot: Some(&here),
            history: Some(&history),
            viewer: Some(viewer),
            crashed_by: Some(noon_plus(0)),
            ..Situation::alone(diagnosis)
        })
    }

    fn end() -> Fix {
        fix(
            "end-holder",
            vec![Condition::HolderAlive],
            &[("ollama", "ollama stop {model}"), ("*", "oomdoctor kill {pid}")],
        )
    }

    #[test]
    fn a_fix_that_was_tried_without_success_is_no_step_nor_is_one_that_does_less() {
        let mut tried = fix("tried", vec![], &[("*", "lower it")]);
        tried.covers = vec![FixId::new("does-less")];
        let fixes = [tried, fix("does-less", vec![], &[("*", "lower it")]), fix("other", vec![], &[("*", "lower it")])];
        let diagnosis = torch_oom(&[]);
        let ids = |tried: &[FixId]| -> Vec<FixId> {
            let advice = advise(&Situation { fixes: &fixes, tried, ..Situation::alone(&diagnosis) });
            let ids = advice.plan.iter().map(|step| step.fix);
            ids.filter(|id| fixes.iter().any(|fix| fix.id == *id)).collect()
        };
        assert_eq!(ids(&[]), ["tried", "does-less", "other"]);
        assert_eq!(ids(&[FixId::new("tried")]), ["other"]);
        assert_eq!(ids(&[FixId::new("does-less")]), ["tried", "other"]);
    }

    #[test]
    fn a_change_is_offered_once_whatever_its_words() {
        let mut own = fix("own-words", vec![], &[("*", "lower it")]);
        own.replaces = vec![FixId::new("general-words")];
        let fixes =
            [fix("general-words", vec![], &[("*", "lower it")]), own, fix("other", vec![], &[("*", "raise it")])];
        let ids = |fixes: &[Fix]| -> Vec<FixId> {
            let plan = plan(&torch_oom(&[]), fixes, vec![]).plan;
            plan.iter().map(|step| step.fix).filter(|id| *id != FixId::LOOK_THERE).collect()
        };
        assert_eq!(ids(&fixes), ["own-words", "other"]);
        assert_eq!(ids(&fixes[..1]), ["general-words"]);
    }

    #[test]
    fn what_the_log_shows_comes_first_and_one_step_at_most_asks_for_a_version() {
        let batch = |id: &str| fix(id, vec![], &[("*", "lower it")]);
        let fixes = [batch("generic"), batch("shown"), batch("one-version"), batch("other-version")];
        let shown = |fix: &str, condition: Option<&str>| Shown {
            that: "it does".into(),
            fixes: vec![FixId::new(fix)],
            withholds: vec![],
            condition: condition.map(str::to_owned),
            version_matters: false,
        };
        let mut diagnosis = torch_oom(&[]);
        diagnosis.signs = vec![
            shown("shown", None),
            shown("one-version", Some("if it is PyTorch 2.3")),
            shown("other-version", Some("if it is PyTorch 2.4")),
        ];
        // Of a run that had the GPU alone.
        diagnosis.facts.process_bytes = Some(Bytes::gib(18));
        let steps = plan(&diagnosis, &fixes, vec![]).plan;
        let ids: Vec<&str> = steps.iter().map(|step| step.fix.as_str()).collect();
        assert_eq!(ids, ["shown", "generic", "one-version"]);
        assert_eq!(steps[2].condition.as_deref(), Some("if it is PyTorch 2.3"));
    }

    #[test]
    fn the_named_process_is_the_first_step_with_its_pid_and_its_bytes() {
        let rows = vec![process(5177, Bytes::gib(2)), process(4242, Bytes::mib(11_500)), process(9, Bytes::gib(4))];
        let batch = fix("smaller-batch", vec![Condition::Training], &[("pytorch", "batch")]);
        let named = [(4242, Bytes::mib(11_500)), (5177, Bytes::gib(2))];
        let advice = plan(&torch_oom(&named), &[end(), batch], vec![device(0, rows)]);
        let first = &advice.plan[0];
        assert_eq!((first.fix.as_str(), first.frees_bytes), ("end-holder", Some(Bytes::mib(11_500))));
        assert_eq!(first.steps[0].command.as_deref(), Some("oomdoctor kill 4242@4242000"));
        assert_eq!(first.target, Some(ProcessKey { pid: 4242, start_ticks: 4_242_000 }));
        assert!(first.may_be_enough);
        let order: Vec<&str> = advice.plan.iter().map(|planned| planned.fix.as_str()).collect();
        assert_eq!(order, ["end-holder", "end-holder", "smaller-batch"]);
    }

    #[test]
    fn an_ollama_runner_is_stopped_by_its_own_command() {
        let mut runner = process(5177, Bytes::gib(16));
        runner.recognised_as = Some("Ollama runner (llama3.1:8b)".into());
        let advice = plan(&torch_oom(&[]), &[end()], vec![device(0, vec![runner])]);
        assert_eq!(advice.plan[0].steps[0].command.as_deref(), Some("ollama stop llama3.1:8b"));
    }

    #[test]
    fn no_process_is_offered_that_may_not_be_terminated() {
        let mut other = process(7, Bytes::gib(20));
        other.uid = Reading::Known(1001);
        let mut foreign = process(8, Bytes::gib(1));
        foreign.proved = false;
        let advice = plan(&torch_oom(&[]), &[end()], vec![device(0, vec![other, foreign])]);
        let ids: Vec<&str> = advice.plan.iter().map(|planned| planned.fix.as_str()).collect();
        assert_eq!(ids, ["wait-for-memory", "ask-owner"], "somebody else's: to be asked for, never ended");
        assert!(advice.plan.iter().all(|planned| planned.target.is_none()));
        let mut elsewhere = torch_oom(&[(4242, Bytes::mib(11_500))]);
        elsewhere.facts.total_bytes = Some(Bytes::gib(80));
        let advice = plan(&elsewhere, &[end()], vec![device(0, vec![process(4242, Bytes::mib(11_500))])]);
        let ids: Vec<FixId> = advice.plan.iter().map(|planned| planned.fix).collect();
        assert_eq!(ids, [FixId::LOOK_THERE], "who it is, only that machine tells");
        assert!(advice.plan.iter().all(|planned| planned.target.is_none()));
    }

    #[test]
    fn no_process_is_offered_if_the_log_may_be_from_anywhere_or_rules_it_out() {
        // Another process than those the log names; a run too large for the GPU; a GPU that the run had to itself.
        let unnamed = torch_oom(&[(3333, Bytes::gib(9))]);
        let mut huge = torch_oom(&[]);
        huge.facts.requested_bytes = Some(Bytes::gib(50));
        let mut alone = torch_oom(&[]);
        (alone.facts.process_bytes, alone.facts.free_bytes) = (Some(Bytes::mib(17_500)), Some(Bytes::mib(6_700)));
        for diagnosis in [unnamed, huge, alone] {
            let advice = plan(&diagnosis, &[end()], vec![device(0, vec![process(7, Bytes::gib(12))])]);
            assert!(advice.plan.iter().all(|planned| planned.target.is_none()), "{:?}", advice.plan);
        }
        // No capacity, and nobody watched the process: the log may be from anywhere, and the process in use.
        let mut poor = torch_oom(&[]);
        poor.facts.total_bytes = None;
        let here = Snapshot { devices: vec![device(0, vec![process(7, Bytes::gib(12))])], ..snapshot(0) };
        let viewer = Viewer { uid: 1000, lineage: vec![900, 1], ..Viewer::default() };
        let plan = advise(&Situation {
            fixes: &[end()],
            snapshot: Some(&here),
            viewer: Some(&viewer),
            crashed_by: Some(noon_plus(0)),
            ..Situation::alone(&poor)
        })
        .plan;
        assert!(plan.iter().all(|planned| planned.target.is_none()), "{plan:?}");
    }

    #[test]
    fn memory_is_freed_by_the_processes_own_program_or_container_where_possible() {
        let managed = |label: &str, uid: u32, container: Option<&str>, manager: Option<&str>| {
            let mut row = process(5177, Bytes::gib(16));
            row.managed_by = manager.map(str::to_owned);
            row.recognised_as = Some(label.into());
            row.uid = Reading::Known(uid);
            row.container = container.map(str::to_owned);
            let advice = plan(&torch_oom(&[]), &[end()], vec![device(0, vec![row])]);
            advice.plan.first().map(|step| (step.steps[0].command.clone().unwrap_or_default(), step.release.is_some()))
        };
        let command = |label: &str, uid: u32, container: Option<&str>| managed(label, uid, container, None);
        let loaded = "ollama ps | awk 'NR>1 {print $1}' | xargs -n1 ollama stop".to_owned();
        assert_eq!(command("Ollama runner", 1000, None), Some((loaded.clone(), true)));
        assert_eq!(command("Ollama runner (x:$(reboot))", 1000, None), Some((loaded.clone(), true)));
        for (uid, container) in [(1001, None), (1001, Some("docker:0123456789ab")), (999, Some("docker:0123456789ab"))]
        {
            assert_eq!(command("Ollama runner", uid, container), Some((String::new(), false)), "another user's: wait");
        }
        assert_eq!(
            command("Ollama runner", 999, None),
            Some((loaded.clone(), false)),
            "a service unloads for everybody"
        );
        assert_eq!(
            command("python train.py", 999, None),
            Some((String::new(), false)),
            "and nothing else is asked of it"
        );
        let stop = ("docker stop 0123456789ab".to_owned(), false);
        assert_eq!(command("python train.py", 1000, Some("docker:0123456789ab")), Some(stop));
        let unit = Some("service:ollama.service");
        assert_eq!(managed("Ollama runner", 1000, None, unit), Some((loaded, true)), "its own API comes first");
        for (manager, stop) in [
            ("slurm:81234", "scancel 81234"),
            ("service:comfy.service", "sudo systemctl stop comfy.service"),
            ("user-service:comfy.service", "systemctl --user stop comfy.service"),
        ] {
            assert_eq!(managed("python train.py", 1000, None, Some(manager)), Some((stop.into(), false)));
        }
        assert_eq!(command("python train.py", 1000, None), Some(("oomdoctor kill 5177@5177000".into(), false)));
    }

    #[test]
    fn another_gpu_is_proposed_only_if_seen_unused_and_before_any_termination() {
        let moves = [end(), move_over()];
        let offered = |other: Device| {
            let named = [(8, Bytes::gib(16))];
            let advice = plan(&torch_oom(&named), &moves, vec![device(0, vec![process(8, Bytes::gib(16))]), other]);
            let steps: Vec<FixId> = advice.plan.iter().map(|planned| planned.fix).collect();
            (steps, advice.verdict.sentence, advice.plan[0].steps[0].command.clone())
        };
        let (steps, said, command) = offered(device(1, vec![]));
        assert_eq!(steps, ["use-other-gpu", "end-holder"]);
        assert!(said.ends_with("GPU 1 has 23.4 GiB free: no processes, 0 % for 20 s."), "{said}");
        let uuid = "GPU-00000001-aaaa-bbbb-cccc-dddddddddddd";
        assert_eq!(command, Some(format!("export CUDA_VISIBLE_DEVICES={uuid}")));
        let mut smaller = device(1, vec![]);
        smaller.memory.free_bytes = Reading::Known(Bytes::gib(8));
        let mut somebodys = process(9, Bytes::mib(300));
        somebodys.uid = Reading::Known(1001);
        let mut used = device(1, vec![]);
        used.utilization_percent = Reading::Known(35);
        for other in [smaller, device(1, vec![somebodys]), device(1, vec![process(9, Bytes::mib(300))]), used] {
            let (steps, said, _) = offered(other);
            assert_eq!(steps, ["end-holder"]);
            assert!(!said.contains("GPU 1"), "{said}");
        }
    }

    fn move_over() -> Fix {
        Fix {
            safety: Safety::Safe,
            ..fix("use-other-gpu", vec![Condition::OtherDeviceHasRoom], &[("*", "CUDA_VISIBLE_DEVICES={gpu_uuid}")])
        }
    }

    #[test]
    fn where_a_scheduler_assigns_the_gpus_another_one_is_a_new_request() {
        let moves = [end(), move_over()];
        let of = |diagnosis: &Diagnosis, seen_from: Vec<Vantage>| {
            let devices = vec![device(0, vec![process(8, Bytes::gib(16))]), device(1, vec![])];
            let here = Snapshot { devices, seen_from, ..snapshot(0) };
            let history = watched(&here);
            let viewer = Viewer { uid: 1000, lineage: vec![900, 1], ..Viewer::default() };
            advise(&Situation {
                fixes: &moves,
                snapshot: Some(&here),
                history: Some(&history),
                viewer: Some(&viewer),
                crashed_by: Some(noon_plus(0)),
                ..Situation::alone(diagnosis)
            })
        };
        let named = torch_oom(&[(8, Bytes::gib(16))]);
        let mut of_slurm = named.clone();
        of_slurm.run.launcher = Some("srun".into());
        for (diagnosis, seen_from, option) in [
            (&named, vec![Vantage::SlurmJob("77".into())], Some("--gres=gpu:TYPE:1")),
            (&named, vec![Vantage::SlurmLogin], Some("--gres=gpu:TYPE:1")),
            (&of_slurm, vec![], Some("--gres=gpu:TYPE:1")),
            (&named, vec![Vantage::Kubernetes], Some("nvidia.com/gpu.product")),
            (&named, vec![Vantage::Scheduler("lsf".into())], None),
        ] {
            let advice = of(diagnosis, seen_from);
            let steps: Vec<&str> = advice.plan.iter().map(|planned| planned.fix.as_str()).collect();
            assert_eq!(steps, ["end-holder", "request-gpu"]);
            let asked = advice.plan[1].steps[0].command.as_deref();
            assert!(option.is_none_or(|option| asked.is_some_and(|asked| asked.contains(option))), "{asked:?}");
            assert_eq!(asked.is_some(), option.is_some(), "no option that was not looked up");
            assert!(advice.plan.iter().all(|planned| planned.room_on.is_none()));
            assert!(!advice.verdict.sentence.contains("GPU 1"), "{}", advice.verdict.sentence);
        }
        let mut elsewhere = of_slurm.clone();
        elsewhere.facts.total_bytes = Some(Bytes::gib(80));
        let steps: Vec<FixId> = of(&elsewhere, vec![]).plan.into_iter().map(|planned| planned.fix).collect();
        assert_eq!(steps, ["look-there", "request-gpu"], "the log tells of its scheduler, wherever that is");
        elsewhere.run.launcher = None;
        let plan = of(&elsewhere, vec![Vantage::SlurmLogin]).plan;
        assert!(
            plan.iter().all(|planned| planned.fix != FixId::REQUEST_GPU),
            "this machine's is not the log's: {plan:?}"
        );
    }

    #[test]
    fn one_gpu_per_rank_is_proposed_only_where_ranks_share_gpu_0() {
        let own = fix("own-card-per-rank", vec![Condition::Ranks], &[("*", "set_device")]);
        let proposed = |rank: Option<u64>, device_index: u32, others: &[(u32, Bytes)]| {
            let mut diagnosis = torch_oom(others);
            (diagnosis.run.rank, diagnosis.facts.device) = (rank, Some(device_index));
            let advice = plan(&diagnosis, std::slice::from_ref(&own), vec![device(0, vec![])]);
            advice.plan.iter().any(|planned| planned.fix == "own-card-per-rank")
        };
        let sibling = [(4242, Bytes::mib(400))];
        assert!(proposed(Some(3), 0, &sibling) && proposed(Some(1), 0, &[]) && proposed(Some(0), 0, &sibling));
        assert!(!proposed(Some(0), 0, &[(4242, Bytes::gib(5))]), "left by an earlier run");
        assert!(!proposed(None, 0, &sibling), "no rank in the log");
        assert!(!proposed(Some(1), 1, &sibling), "a card of its own");
        assert!(!proposed(Some(0), 0, &[]), "rank 0 belongs there");
    }

    #[test]
    fn the_program_that_was_run_comes_before_the_one_that_printed_the_error() {
        let shorter =
            fix("shorter-context", vec![], &[("llama.cpp", "-c 8192"), ("ollama", "OLLAMA_CONTEXT_LENGTH=8192")]);
        let mut diagnosis = torch_oom(&[]);
        (diagnosis.program, diagnosis.raised_by) = (Some("ollama".into()), Some("llama.cpp".into()));
        let advice =
            plan(&diagnosis, std::slice::from_ref(&shorter), vec![device(0, vec![process(8, Bytes::gib(16))])]);
        assert_eq!(advice.plan[0].steps[0].command.as_deref(), Some("export OLLAMA_CONTEXT_LENGTH=8192"));
    }

    #[test]
    fn a_rank_is_not_terminated_alone_but_with_its_launcher_and_all_its_ranks() {
        let rank = |pid: u32| {
            let mut row = process(pid, Bytes::gib(8));
            (row.parent_pid, row.group) = (Reading::Known(40), process(40, Bytes::ZERO).key());
            row
        };
        let mut launcher = process(40, Bytes::ZERO);
        (launcher.group, launcher.kind) = (launcher.key(), crate::gpu::ProcessKind::Unlisted);
        launcher.recognised_as = Some("torchrun launcher (train.py)".into());
        let plan_of = |launcher: GpuProcess| {
            let here = Snapshot {
                devices: vec![device(0, vec![rank(41), rank(42)])],
                launchers: vec![launcher],
                ..snapshot(0)
            };
            let viewer = Viewer { uid: 1000, lineage: vec![900, 1], ..Viewer::default() };
            let (diagnosis, history) = (torch_oom(&[]), watched(&here));
            advise(&Situation {
                fixes: &[end()],
                snapshot: Some(&here),
                history: Some(&history),
                viewer: Some(&viewer),
                crashed_by: Some(noon_plus(0)),
                ..Situation::alone(&diagnosis)
            })
            .plan
        };
        let steps = plan_of(launcher.clone());
        let [step] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!((step.target, step.frees_bytes), (launcher.key(), Some(Bytes::gib(16))));
        assert_eq!(step.title, "Terminate torchrun launcher (train.py) (40) and its 2 workers");
        let command = step.steps[0].command.clone().unwrap();
        assert_eq!(command, "oomdoctor kill --any 40@40000 41@41000 42@42000");
        launcher.uid = Reading::Known(1001);
        let targets: Vec<u32> = plan_of(launcher).iter().filter_map(|step| Some(step.target?.pid)).collect();
        assert_eq!(targets, Vec::<u32>::new(), "it would end with somebody else's launcher");
    }

    #[test]
    fn a_smaller_batch_is_the_persons_own_command_with_half_of_it() {
        let mut smaller = fix("smaller-batch", vec![], &[("*", "x")]);
        smaller.commands.iter_mut().for_each(|form| form.command = None);
        let of = |line: &str| {
            let diagnosis = torch_oom(&[]);
            let fixes = [smaller.clone()];
            let situation = Situation { fixes: &fixes, command: Some(line), ..Situation::alone(&diagnosis) };
            advise(&situation).plan.iter().find(|step| step.fix == "smaller-batch")?.steps[0].command.clone()
        };
        assert_eq!(of("python train.py --batch 16 --lr 1").as_deref(), Some("python train.py --batch 8 --lr 1"));
        assert_eq!(of("python train.py --batch_size=3").as_deref(), Some("python train.py --batch_size=1"));
        assert_eq!(of("python train.py --batch 1"), None);
        assert_eq!(of("python train.py"), None);
    }

    #[test]
    fn after_the_named_process_has_exited_the_first_step_is_to_run_again() {
        let advice = plan(&torch_oom(&[(4242, Bytes::mib(11_500))]), &[end()], vec![device(0, vec![])]);
        assert_eq!(advice.plan[0].fix, "run-again");
    }

    #[test]
    fn after_a_step_that_may_be_enough_the_next_is_to_run_again() {
        let shorter = fix("shorter-context", vec![], &[("*", "-c 2048")]);
        let diagnosis = torch_oom(&[]);
        let here = Snapshot { devices: vec![device(0, vec![process(8, Bytes::gib(16))])], ..snapshot(0) };
        let fixes = [shorter];
        for enough in [false, true] {
            let advice = advise(&Situation {
                fixes: &fixes,
                snapshot: Some(&here),
                command: Some("llama-server -m a.gguf -c 4096"),
                taken: Taken { enough, ..Taken::default() },
                ..Situation::alone(&diagnosis)
            });
            let first = &advice.plan[0];
            assert_eq!(first.fix == FixId::RUN_AGAIN, enough);
            assert!(!enough || first.steps[0].command.as_deref() == Some("llama-server -m a.gguf -c 4096"));
        }
    }

    #[test]
    fn after_a_termination_that_freed_enough_no_other_process_is_offered() {
        let mut diagnosis = torch_oom(&[]);
        (diagnosis.facts.process_bytes, diagnosis.facts.free_bytes) = (None, None);
        diagnosis.facts.requested_bytes = Some(Bytes::gib(10));
        let viewer = Viewer { uid: 1000, lineage: vec![900, 1], ..Viewer::default() };
        for (held, tries) in [(Bytes::gib(2), true), (Bytes::gib(18), false)] {
            let here = Snapshot { devices: vec![device(0, vec![process(9, held)])], ..snapshot(0) };
            let advice = advise(&Situation {
                fixes: &[end()],
                snapshot: Some(&here),
                viewer: Some(&viewer),
                crashed_by: Some(noon_plus(0)),
                taken: Taken { freed: true, ..Taken::default() },
                ..Situation::alone(&diagnosis)
            });
            let steps: Vec<&str> = advice.plan.iter().map(|planned| planned.fix.as_str()).collect();
            assert_eq!(steps, if tries { ["run-again"] } else { ["end-holder"] });
        }
    }

    #[test]
    fn the_logs_own_model_stands_in_the_command() {
        let of = |template: &str, model: &str| {
            let served = fix("lower-utilization", vec![], &[("*", template)]);
            let mut diagnosis = torch_oom(&[]);
            diagnosis.run.model = Some(model.into());
            let advice =
                plan(&diagnosis, std::slice::from_ref(&served), vec![device(0, vec![process(8, Bytes::gib(16))])]);
            advice.plan[0].steps[0].command.clone().unwrap()
        };
        assert_eq!(of("vllm serve MODEL --enforce-eager", "org/m-8b"), "vllm serve org/m-8b --enforce-eager");
        assert_eq!(of("vllm serve MODEL-AWQ", "org/m-8b"), "vllm serve MODEL-AWQ", "another model");
        assert_eq!(of("x -m MODEL.gguf", "/srv/a.gguf"), "x -m /srv/a.gguf");
        assert_eq!(of("x MODEL", "m; reboot"), "x MODEL", "no foreign text in a command");
    }

    #[test]
    fn a_command_with_an_unknown_figure_is_left_out_not_shown_with_a_hole() {
        let shorter = fix("shorter-context", vec![], &[("*", "-c {half_context}")]);
        let advice = plan(&torch_oom(&[]), std::slice::from_ref(&shorter), vec![device(0, vec![])]);
        assert_eq!(advice.plan[0].steps[0].command, None);
        assert_eq!(substitute("json {\"a\":1} {pid}", &|_| Some("7".into())).as_deref(), Some("json {\"a\":1} 7"));
    }
}
