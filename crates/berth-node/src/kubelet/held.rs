//! The pods on the nodes: the stage of each one, what it waits for, and its due work.

use super::{
    addresses::Addresses,
    behavior::{Behavior, back_off},
    lives::{Outcome, Stop},
    node,
    references::{Faults, Referenced, Step, key},
    stage::{PodStage, begin, configured, due, images_changed, mounted, next_step, step, terminating},
    view::{KubeletPod, Runs},
    volumes::Contents,
};
use berth_identity::{GroupResource, Lookup, ObjectKey, Uid};
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

#[derive(Default)]
pub(super) struct Held {
    /// Boxed, because the map always has unused slots.
    pods: Lookup<Uid, Box<HeldPod>>,
    /// Pods whose volumes are not mounted, by claim.
    mounting: BTreeMap<ObjectKey, BTreeSet<Uid>>,
    /// Pods that wait for a ConfigMap or a Secret, by that object.
    waiting: BTreeMap<(GroupResource, ObjectKey), BTreeSet<Uid>>,
    /// Pods that were reported ready, and are not ready in a newer version.
    contradicted: BTreeSet<Uid>,
    addresses: Addresses,
}

/// A pod on a node.
struct HeldPod {
    view: Arc<KubeletPod>,
    node: u32,
    behavior: Behavior,
    stage: PodStage,
    /// The number of the stage, counted from the first.
    number: u32,
    /// The number of the stage in the pod's status. `None` if it is unknown, so it is written.
    reported: Option<u32>,
    /// The container events to report with the next status.
    news: Vec<News>,
    /// Whether the status must be written in any case, because another part of it changes.
    is_stale: bool,
    address: Option<Box<str>>,
    /// The content of its volumes.
    contents: Contents,
    /// Why it does not continue.
    waits: Option<Box<Waits>>,
}

/// The references that a pod waits for.
struct Waits {
    step: Step,
    faults: Faults,
    objects: BTreeSet<Referenced>,
    /// How often the step was tried.
    tries: u32,
    /// When it is tried again, whatever happens to the objects.
    again_at: Timestamp,
}

/// The due work of one pod.
pub(super) enum Due {
    Nothing,
    Report(Report),
    /// It was active for too long. Its stage has stopped containers.
    EndIt(Report),
    LetGo(Report),
}

/// The maximum number of unreported events of one pod. While the server is unavailable, containers continue to crash.
const NEWS_MAX: usize = 256;

/// An event of a container, by its index, init containers first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    Started(usize),
    BacksOff(usize),
}

/// The report on a pod.
pub(super) struct Report {
    pub(super) pod: Arc<KubeletPod>,
    pub(super) stage: PodStage,
    pub(super) number: u32,
    pub(super) behavior: Behavior,
    pub(super) news: Vec<News>,
    pub(super) node: u32,
    pub(super) address: Option<Box<str>>,
    pub(super) contents: Contents,
    /// Whether the pod's status did not report this stage before.
    pub(super) is_news: bool,
    /// Why containers cannot be created.
    pub(super) faults: Faults,
}

impl Held {
    /// Applies a version of a pod. Returns whether there is work for it.
    pub(super) fn take_in(&mut self, pod: &Arc<KubeletPod>, node: u32, behavior: impl Fn() -> Behavior, now: Timestamp) -> bool {
        if pod.status.finished && pod.deletion_deadline.is_none() {
            // Also if another client ended it: a finished phase is final.
            self.forget(&pod.uid);
            return false;
        }
        if let Some(held) = self.pods.get_mut(&pod.uid) {
            let due = held.update(pod, behavior, now);
            if held.is_contradicted() {
                self.contradicted.insert(pod.uid.clone());
            }
            if matches!(held.stage, PodStage::Terminating { .. }) {
                self.end_waits(&pod.uid);
            }
            return due;
        }
        if let Some(address) = &pod.status.pod_ip {
            self.addresses.note(address);
        }
        let held = HeldPod::new(pod, node, behavior(), now);
        if held.stage == PodStage::Mounting {
            for claim in claims(pod) {
                self.mounting.entry(claim).or_default().insert(pod.uid.clone());
            }
        }
        self.pods.insert(pod.uid.clone(), Box::new(held));
        true
    }

    pub(super) fn forget(&mut self, uid: &Uid) {
        self.end_waits(uid);
        let Some(held) = self.pods.remove(uid) else { return };
        self.forget_mounting(uid, &held.view);
        if let Some(address) = held.address.filter(|_| !held.view.host_network) {
            self.addresses.give_back(&address);
        }
    }

    fn forget_mounting(&mut self, uid: &str, pod: &KubeletPod) {
        for claim in claims(pod) {
            if let Some(users) = self.mounting.get_mut(&claim) {
                users.remove(uid);
                if users.is_empty() {
                    self.mounting.remove(&claim);
                }
            }
        }
    }

    /// Returns the pods that were reported ready and that other clients have set to not ready since the last call. They must be reported
    /// again.
    pub(super) fn take_contradicted(&mut self) -> Vec<Uid> {
        let contradicted = std::mem::take(&mut self.contradicted);
        let mut again = Vec::new();
        for uid in contradicted {
            if let Some(pod) = self.pods.get_mut(&uid).filter(|pod| pod.is_contradicted()) {
                pod.is_stale = true;
                again.push(uid);
            }
        }
        again
    }

    /// Pods whose volumes are not mounted and that use this claim.
    pub(super) fn users_of(&self, claim: &ObjectKey) -> Vec<Uid> {
        self.mounting.get(claim).into_iter().flatten().cloned().collect()
    }

    /// Pods that wait for this ConfigMap or Secret.
    pub(super) fn waiting_for(&self, resource: &GroupResource, key: &ObjectKey) -> Vec<Uid> {
        self.waiting.get(&(resource.clone(), key.clone())).into_iter().flatten().cloned().collect()
    }

    /// Whether some pod waits for an object of the resource.
    pub(super) fn waits_for_some(&self, resource: &GroupResource) -> bool {
        self.waiting.range((resource.clone(), ObjectKey::default())..).next().is_some_and(|((found, _), _)| found == resource)
    }

    /// The pod and its next step, if it cannot continue without the step's objects.
    pub(super) fn next_step(&self, uid: &Uid, now: Timestamp) -> Option<(Arc<KubeletPod>, Step)> {
        let held = self.pods.get(uid)?;
        let step = next_step(&held.stage, now).filter(|step| *step == Step::Mount || held.view.reads_references)?;
        Some((Arc::clone(&held.view), step))
    }

    /// Whether the pod's containers are created for the first time.
    pub(super) fn is_first_start(&self, uid: &Uid) -> bool {
        self.pods.get(uid).is_some_and(|held| matches!(held.stage, PodStage::Creating { .. }))
    }

    /// Makes the pod wait for objects. A change of one of them then wakes it.
    pub(super) fn wait_for(&mut self, pod: &KubeletPod, objects: &BTreeSet<Referenced>) {
        for object in objects {
            self.waiting.entry(key(&pod.namespace, object)).or_default().insert(pod.uid.clone());
        }
    }

    /// Records that a step cannot be taken. Returns whether to report that: it is new, or was tried again.
    pub(super) fn hold(
        &mut self,
        pod: &KubeletPod,
        (step, faults): (Step, &Faults),
        objects: BTreeSet<Referenced>,
        now: Timestamp,
    ) -> bool {
        let Some(held) = self.pods.get_mut(&pod.uid).filter(|held| next_step(&held.stage, now) == Some(step)) else {
            self.stop_waiting(pod, &objects);
            return false;
        };
        let known = held.waits.take().filter(|waits| waits.step == step && waits.faults == *faults);
        let is_known = known.is_some();
        let is_early = known.as_ref().is_some_and(|waits| now < waits.again_at);
        let (tries, again_at) = match known {
            Some(waits) if is_early => (waits.tries, waits.again_at),
            Some(waits) => (waits.tries + 1, now + back_off(waits.tries + 1)),
            None => (1, now + back_off(1)),
        };
        held.is_stale |= !is_known;
        held.behavior.config_fails = step == Step::Create;
        held.waits = Some(Box::new(Waits { step, faults: faults.clone(), objects, tries, again_at }));
        !is_early
    }

    /// Records that a step can be taken, because `objects` exist.
    pub(super) fn release(&mut self, pod: &KubeletPod, step: Step, objects: &BTreeSet<Referenced>, now: Timestamp) {
        let uid = &pod.uid;
        // The pod may have been set to wait for them just before they were created.
        self.stop_waiting(pod, objects);
        self.end_waits(uid);
        let Some(held) = self.pods.get_mut(uid).filter(|held| next_step(&held.stage, now) == Some(step)) else { return };
        held.behavior.config_fails = false;
        if let Some(stage) = configured(&held.stage, &held.view, &held.behavior, now) {
            held.move_to(stage);
        }
    }

    fn end_waits(&mut self, uid: &Uid) {
        let Some(held) = self.pods.get_mut(uid) else { return };
        let Some(waits) = held.waits.take() else { return };
        // The status that names them must be replaced.
        held.is_stale = true;
        let pod = Arc::clone(&held.view);
        self.stop_waiting(&pod, &waits.objects);
    }

    /// Ends the wait for the objects. The pod may be deleted.
    pub(super) fn stop_waiting(&mut self, pod: &KubeletPod, objects: &BTreeSet<Referenced>) {
        for object in objects {
            let key = key(&pod.namespace, object);
            if let Some(pods) = self.waiting.get_mut(&key) {
                pods.remove(&pod.uid);
                if pods.is_empty() {
                    self.waiting.remove(&key);
                }
            }
        }
    }

    pub(super) fn mounted(&mut self, uid: &Uid, contents: Contents, now: Timestamp) {
        // The pod may be terminating by now.
        let Some(held) = self.pods.get_mut(uid).filter(|held| held.stage == PodStage::Mounting) else { return };
        held.set_stage(mounted(&held.behavior, now));
        held.contents = contents;
        let pod = Arc::clone(&held.view);
        self.forget_mounting(uid, &pod);
    }

    /// Records that the pod's status reports this stage.
    pub(super) fn reported(&mut self, uid: &Uid, report: &Report) {
        if let Some(held) = self.pods.get_mut(uid) {
            held.reported = Some(report.number);
            held.news.drain(..report.news.len().min(held.news.len()));
            held.is_stale = false;
        }
    }

    /// Advances a pod's stage to `now`. Returns the due work, and when to reconcile it again.
    pub(super) fn advance(&mut self, uid: &Uid, now: Timestamp, shortest_reported: Duration) -> (Due, Option<Timestamp>) {
        let Some(held) = self.pods.get_mut(uid) else { return (Due::Nothing, None) };
        held.step_to(now);
        if matches!(held.stage, PodStage::Gone { .. }) {
            return (Due::LetGo(held.report()), None);
        }
        let again = held.again_at();
        let is_terminating = held.is_terminating();
        if !is_terminating && held.is_past_deadline(now) {
            return (Due::EndIt(held.report_of_end(now)), None);
        }
        let is_shown = held.reported == Some(held.number) && !held.is_stale;
        if is_terminating || is_shown || held.passes_soon(now, shortest_reported) {
            return (Due::Nothing, again);
        }
        if held.address.is_none() && has_address(&held.stage) {
            held.address = Some(self.addresses.take().into());
        }
        (Due::Report(held.report()), again)
    }
}

/// Whether a pod at this stage has containers, and so an address.
fn has_address(stage: &PodStage) -> bool {
    use PodStage as P;
    matches!(stage, P::Active(_) | P::PullFailing { .. } | P::ConfigMissing { .. })
}

impl HeldPod {
    fn new(pod: &Arc<KubeletPod>, node: u32, behavior: Behavior, now: Timestamp) -> Self {
        let stage = begin(pod, &behavior, now);
        // A status that already reports the stage need not be written again.
        let is_shown = matches!(pod.status.runs, Runs::AllSince(_)) && stage.lives().is_some_and(|lives| lives.last_end().is_none());
        let reported = (is_shown && matches!(stage, PodStage::Active(_))).then_some(0);
        let own = || pod.host_network.then(|| node::address(node).into());
        let address = pod.status.pod_ip.clone().or_else(own);
        let is_stale = pod.status.ready && !pod.has_open_gates();
        let (view, contents, news) = (Arc::clone(pod), Contents::default(), Vec::new());
        Self { view, node, behavior, stage, number: 0, reported, news, is_stale, address, contents, waits: None }
    }

    /// Applies a new version of the pod. Returns whether there is work for it.
    fn update(&mut self, pod: &Arc<KubeletPod>, behavior: impl FnOnce() -> Behavior, now: Timestamp) -> bool {
        let shortened = pod.deletion_deadline != self.view.deletion_deadline;
        let old = std::mem::replace(&mut self.view, Arc::clone(pod));
        if !shortened || pod.deletion_deadline.is_none() {
            let is_limited = old.active_until() != pod.active_until();
            let is_gated = old.gates != pod.gates;
            self.is_stale |= is_gated;
            return self.replace_images(&old, behavior, now) || is_limited || is_gated;
        }
        if matches!(self.stage, PodStage::Gone { .. }) {
            return true;
        }
        // Containers that have ended by now have ended by themselves.
        self.step_to(now);
        let stage = terminating(pod, &self.behavior, self.stage.lives().cloned().map(Box::new), now);
        // A later delete may shorten the remaining time, but never lengthen it.
        if due(&self.stage).is_none_or(|at| !self.is_terminating() || due(&stage) < Some(at)) {
            self.set_stage(stage);
        }
        true
    }

    /// The behavior of a pod is fixed when it is bound, except if an image could not be pulled and has changed. Returns whether it has.
    fn replace_images(&mut self, old: &KubeletPod, behavior: impl FnOnce() -> Behavior, now: Timestamp) -> bool {
        if images(old).eq(images(&self.view)) {
            return false;
        }
        let behavior = behavior();
        let Some(stage) = images_changed(&self.stage, now) else { return false };
        self.behavior.pull_fails = behavior.pull_fails;
        self.set_stage(stage);
        true
    }

    fn set_stage(&mut self, stage: PodStage) {
        self.stage = stage;
        self.number = self.number.wrapping_add(1);
    }

    /// Advances the stage, up to the pod's deadline.
    fn step_to(&mut self, now: Timestamp) {
        let until = self.deadline().map_or(now, |deadline| deadline.min(now));
        while let Some(next) = step(&self.stage, &self.view, &self.behavior, until) {
            self.move_to(next);
        }
    }

    /// Enters the next stage, and collects the events to report.
    fn move_to(&mut self, next: PodStage) {
        if let PodStage::Active(lives) = &next {
            let before = self.stage.lives();
            let backing_off = before.into_iter().flat_map(|before| lives.backing_off_since(before));
            let news = lives.started_since(before).map(News::Started).chain(backing_off.map(News::BacksOff));
            self.news.extend(news.take(NEWS_MAX.saturating_sub(self.news.len())));
        }
        self.set_stage(next);
    }

    fn is_terminating(&self) -> bool {
        matches!(self.stage, PodStage::Terminating { .. } | PodStage::Gone { .. })
    }

    fn outcome(&self) -> Option<Outcome> {
        self.stage.outcome(&self.view, &self.behavior)
    }

    /// When the pod fails if it has not ended before.
    fn deadline(&self) -> Option<Timestamp> {
        self.view.active_until().filter(|_| !self.is_terminating())
    }

    fn is_past_deadline(&self, now: Timestamp) -> bool {
        self.outcome().is_none() && self.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// When there is work for it if nothing else happens.
    fn again_at(&self) -> Option<Timestamp> {
        let waits = self.waits.as_ref().map(|waits| waits.again_at);
        let deadline = self.deadline().filter(|_| self.outcome().is_none());
        [due(&self.stage), waits, deadline].into_iter().flatten().min()
    }

    fn report(&self) -> Report {
        let waits = self.waits.as_ref().filter(|waits| waits.step == Step::Create);
        Report {
            pod: Arc::clone(&self.view),
            stage: self.stage.clone(),
            number: self.number,
            behavior: self.behavior,
            news: self.news.clone(),
            node: self.node,
            address: self.address.clone(),
            contents: self.contents.clone(),
            is_news: self.reported != Some(self.number),
            faults: waits.map(|waits| waits.faults.clone()).unwrap_or_default(),
        }
    }

    /// The report of a pod whose containers the node stops now.
    fn report_of_end(&self, now: Timestamp) -> Report {
        let at = self.deadline().unwrap_or(now);
        let lives = self.stage.lives().map(|lives| Box::new(lives.stopped(at, Stop::Gracefully)));
        Report { stage: PodStage::Gone { lives }, ..self.report() }
    }

    fn is_contradicted(&self) -> bool {
        self.stage.is_ready(&self.view, &self.behavior)
            && self.reported == Some(self.number)
            && !self.view.status.ready
            && self.view.has_open_gates()
    }

    fn passes_soon(&self, now: Timestamp, shortest_reported: Duration) -> bool {
        matches!(self.stage, PodStage::Creating { runs_at } if runs_at < now + shortest_reported)
    }
}

fn images(pod: &KubeletPod) -> impl Iterator<Item = &str> {
    pod.init_containers.iter().chain(pod.containers.iter()).map(|container| container.image.as_str())
}

fn claims(pod: &KubeletPod) -> impl Iterator<Item = ObjectKey> + '_ {
    pod.claims.values().map(|claim| ObjectKey::new(&pod.namespace, claim))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet::{behavior::Latencies, images::MissingImages};
    use berth_identity::Revision;
    use berth_workloads::{resources::CONFIG_MAPS, view::View};
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    /// A pod that references a ConfigMap, held by a node that starts pods at once.
    fn holding() -> (Held, Arc<KubeletPod>, BTreeSet<Referenced>) {
        let env = json!([{"configMapRef": {"name": "settings"}}]);
        let pod = json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "u"}, "status": {"phase": "Pending"},
            "spec": {"nodeName": "node-0", "containers": [{"name": "main", "image": "i", "envFrom": env}]},
        });
        let pod = Arc::new(KubeletPod::decode(pod.to_string().as_bytes(), Revision(1)).expect("a pod"));
        let latencies = Latencies { start: Duration::ZERO, stop: Duration::ZERO };
        let mut held = Held::default();
        assert!(held.take_in(&pod, 0, || Behavior::of(&pod, latencies, &MissingImages::default()), at(0)));
        (held, pod, BTreeSet::from([(CONFIG_MAPS, "settings".to_owned())]))
    }

    /// Otherwise the resource would be watched, and the pod remembered, as long as the node runs.
    #[test]
    fn a_pod_whose_object_comes_at_the_last_moment_or_that_goes_meanwhile_waits_for_nothing() {
        let (mut held, pod, objects) = holding();
        held.wait_for(&pod, &objects);
        assert_eq!(held.waiting_for(&CONFIG_MAPS, &ObjectKey::new("shop", "settings")), std::slice::from_ref(&pod.uid));
        held.release(&pod, Step::Create, &objects, at(0));
        assert!(!held.waits_for_some(&CONFIG_MAPS), "it is there by now");

        let (mut held, pod, objects) = holding();
        held.wait_for(&pod, &objects);
        held.forget(&pod.uid);
        let faults = Faults::from([("main".to_owned(), "configmap \"settings\" not found".to_owned())]);
        assert!(!held.hold(&pod, (Step::Create, &faults), objects, at(0)), "it is gone");
        assert!(!held.waits_for_some(&CONFIG_MAPS));
    }
}
