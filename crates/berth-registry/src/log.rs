//! The logs of simulated containers: `pods/NAME/log`.
//!
//! Logs are not stored. The events of a container's life come from the pod's status, and its output comes from the
//! annotation `sim.berth.dev/logs`. Errors are those of upstream's API server and kubelet.

use crate::{ApiError, Registry, Resource, Target, WatchEvent};
use berth_api::{
    FieldError, Path,
    annotations::{SIM_FAILS, SIM_LOGS},
    k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod},
};
use berth_identity::GroupKind;
use berth_store::{Entry, env::Timestamp};
use jiff::SignedDuration;
use std::sync::Arc;

/// The options of a log request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// `container`. Empty: the only container.
    pub container: String,
    /// `follow`: continues until the container terminates.
    pub follow: bool,
    /// `previous`: the log of the previous run.
    pub previous: bool,
    /// `timestamps`: a timestamp before each line.
    pub timestamps: bool,
    /// `sinceSeconds`.
    pub since_seconds: Option<i64>,
    /// `sinceTime`.
    pub since_time: Option<Timestamp>,
    /// `tailLines`.
    pub tail_lines: Option<i64>,
    /// `limitBytes`.
    pub limit_bytes: Option<i64>,
    /// Whether the request has `stream`, which upstream accepts only with a feature gate.
    pub has_stream: bool,
}

impl LogOptions {
    /// Source: upstream `ValidatePodLogOptions`.
    fn validate(&self, pod: &str) -> Result<(), ApiError> {
        let mut errors = Vec::new();
        if let Some(lines) = self.tail_lines.filter(|lines| *lines < 0) {
            errors.push(FieldError::invalid(&Path::new("tailLines"), lines, "must be greater than or equal to 0"));
        }
        for (field, number) in [("limitBytes", self.limit_bytes), ("sinceSeconds", self.since_seconds)] {
            if let Some(number) = number.filter(|number| *number < 1) {
                errors.push(FieldError::invalid(&Path::new(field), number, "must be greater than 0"));
            }
        }
        if self.since_seconds.is_some() && self.since_time.is_some() {
            errors.push(FieldError::forbidden(&Path::new("[]"), "at most one of `sinceTime` or `sinceSeconds` may be specified"));
        }
        if self.has_stream {
            errors.push(FieldError::forbidden(&Path::new("stream"), "may not be specified"));
        }
        if errors.is_empty() {
            return Ok(());
        }
        Err(ApiError::Invalid { kind: GroupKind::from_static("", "PodLogOptions"), name: pod.to_owned(), errors })
    }
}

/// The state of a log that is being read.
#[derive(Debug)]
pub struct Log {
    options: LogOptions,
    container: String,
    since: Option<Timestamp>,
    /// The remaining bytes within the limit.
    bytes_left: usize,
    /// The start of the run that is read.
    run: Option<Timestamp>,
    /// The lines at the last read. `None` before the first one.
    shown: Option<Vec<Line>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    at: Timestamp,
    text: String,
}

/// New lines of a log.
#[derive(Debug, PartialEq, Eq)]
pub struct News {
    /// Whole lines, unless the limit cuts the last one.
    pub text: Vec<u8>,
    /// Whether the log is complete.
    pub ended: bool,
}

impl Registry {
    /// Returns the log of a container and its pod. Returns no log while the pod is unscheduled.
    ///
    /// # Errors
    /// Invalid options, no such pod or container, or a container without the requested run.
    pub async fn log(&self, pod: &Target, options: LogOptions) -> Result<(Arc<Entry>, Option<Log>), ApiError> {
        options.validate(&pod.name)?;
        let stored = self.storage.load(&Target { subresource: None, ..pod.clone() }).await?;
        let pod: &Pod = stored.object.downcast_ref().ok_or(ApiError::UnknownResource)?;
        let container = chosen(pod, &options.container)?;
        if !is_bound(pod) {
            return Ok((stored.entry, None));
        }
        Run::of(pod, &container, options.previous)?;
        let back = options.since_seconds.map(SignedDuration::from_secs);
        let since = back.map(|back| self.storage.clock.now().saturating_sub(back).unwrap_or(Timestamp::UNIX_EPOCH)).or(options.since_time);
        let bytes_left = options.limit_bytes.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        Ok((stored.entry, Some(Log { options, container, since, bytes_left, run: None, shown: None })))
    }
}

impl Log {
    /// Returns the new lines after this event of the pod. The first call returns all existing lines.
    pub fn follow(&mut self, resource: &Resource, event: &WatchEvent) -> News {
        let quiet = |ended| News { text: Vec::new(), ended };
        match event {
            WatchEvent::Added(entry) => self.read(resource, entry),
            WatchEvent::Modified(event) => self.read(resource, &event.entry),
            WatchEvent::Bookmark { .. } => quiet(false),
            WatchEvent::Deleted { .. } | WatchEvent::Error(_) => quiet(true),
        }
    }

    /// Returns the new lines in this version of the pod.
    pub fn read(&mut self, resource: &Resource, entry: &Entry) -> News {
        let object = resource.rules.decode_stored(&entry.value).ok();
        let news = object.as_ref().and_then(|object| object.downcast_ref()).and_then(|pod: &Pod| self.news(pod));
        let News { mut text, ended } = news.unwrap_or(News { text: Vec::new(), ended: true });
        text.truncate(self.bytes_left);
        self.bytes_left -= text.len();
        News { text, ended: ended || self.bytes_left == 0 }
    }

    /// Returns `None` if the run has ended and the status no longer contains it.
    fn news(&mut self, pod: &Pod) -> Option<News> {
        // The followed run may have become the previous one.
        let runs = [self.options.previous, true].map(|previous| Run::of(pod, &self.container, previous).ok());
        let run = runs.into_iter().flatten().find(|run| self.run.is_none_or(|began| began == run.began))?;
        self.run = Some(run.began);
        let lines = run.lines(pod, &self.container);
        let tail = self.options.tail_lines.filter(|_| self.shown.is_none());
        let skipped = tail.map_or(0, |tail| lines.len().saturating_sub(usize::try_from(tail).unwrap_or(usize::MAX)));
        let before = self.shown.take().unwrap_or_default();
        let mut text = Vec::new();
        for line in lines.iter().skip(skipped).filter(|line| self.since.is_none_or(|since| since <= line.at) && !before.contains(line)) {
            if self.options.timestamps {
                text.extend_from_slice(format!("{:.9} ", line.at).as_bytes());
            }
            text.extend_from_slice(line.text.as_bytes());
            text.push(b'\n');
        }
        self.shown = Some(lines);
        Some(News { text, ended: run.ended.is_some() })
    }
}

/// Returns the requested container.
///
/// Source: upstream `registry/core/pod/strategy.go`, `LogLocation`.
fn chosen(pod: &Pod, wanted: &str) -> Result<String, ApiError> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let spec = pod.spec.clone().unwrap_or_default();
    let first: Vec<&str> = spec.init_containers.iter().flatten().map(|container| container.name.as_str()).collect();
    let containers: Vec<&str> = spec.containers.iter().map(|container| container.name.as_str()).collect();
    let all = [first, containers.clone()].concat();
    match (wanted, &containers[..]) {
        ("", [only]) => Ok((*only).to_owned()),
        ("", _) => {
            let names = all.join(" ");
            Err(ApiError::bad_request(format!("a container name must be specified for pod {name}, choose one of: [{names}]")))
        }
        (wanted, _) if all.contains(&wanted) => Ok(wanted.to_owned()),
        (wanted, _) => Err(ApiError::bad_request(format!("container {wanted} is not valid for pod {name}"))),
    }
}

fn is_bound(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()).is_some_and(|node| !node.is_empty())
}

/// One run of a container.
struct Run<'a> {
    began: Timestamp,
    ended: Option<&'a ContainerStateTerminated>,
    status: &'a ContainerStatus,
}

impl<'a> Run<'a> {
    /// Returns the current run, or the last completed one.
    ///
    /// Source: upstream `kubelet.go`, `validateContainerLogStatus`.
    fn of(pod: &'a Pod, container: &str, previous: bool) -> Result<Self, ApiError> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let refused = |why: String| Err(ApiError::bad_request(why));
        let known = pod.status.as_ref();
        let all = known.and_then(|status| status.init_container_statuses.as_ref()).into_iter().flatten();
        let mut all = all.chain(known.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten());
        let Some(status) = all.find(|status| status.name == container) else {
            return refused(format!("container {container:?} in pod {name:?} is not available"));
        };
        let ended = |state: Option<&'a ContainerState>| state.and_then(|state| state.terminated.as_ref());
        let over = |ended: &'a ContainerStateTerminated| {
            let began = ended.started_at.as_ref().map_or(Timestamp::UNIX_EPOCH, |at| at.0);
            Ok(Self { began, ended: Some(ended), status })
        };
        let state = status.state.as_ref();
        let running = state.and_then(|state| state.running.as_ref());
        match (previous, running, ended(state), ended(status.last_state.as_ref())) {
            (true, _, _, Some(last)) => over(last),
            (true, _, _, None) => refused(format!("previous terminated container {container:?} in pod {name:?} not found")),
            (false, Some(running), _, _) => {
                let began = running.started_at.as_ref().map_or(Timestamp::UNIX_EPOCH, |at| at.0);
                Ok(Self { began, ended: None, status })
            }
            (false, None, Some(ended), _) | (false, None, None, Some(ended)) => over(ended),
            (false, None, None, None) => {
                let waiting = state.and_then(|state| state.waiting.as_ref()).and_then(|waiting| waiting.reason.as_deref());
                let why = match waiting {
                    Some("ErrImagePull") => ": image can't be pulled",
                    Some("ImagePullBackOff") => ": trying and failing to pull image",
                    Some(reason) => &format!(": {reason}"),
                    None => " - no logs yet",
                };
                refused(format!("container {container:?} in pod {name:?} is waiting to start{why}"))
            }
        }
    }

    /// Returns the lines about its life, and its output.
    fn lines(&self, pod: &Pod, container: &str) -> Vec<Line> {
        let line = |at: Timestamp, text: String| Line { at, text };
        let annotation = |name: &str| pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(name));
        let mut lines = vec![line(self.began, format!("simulated container {container:?} of image {:?} started", self.status.image))];
        lines.extend(annotation(SIM_LOGS).iter().flat_map(|text| text.lines()).map(|text| line(self.began, text.to_owned())));
        if let Some(how) = annotation(SIM_FAILS) {
            lines.push(line(self.began, format!("simulated container {container:?} is told to fail: {SIM_FAILS}={how}")));
        }
        if let Some(ended) = self.ended {
            let at = ended.finished_at.as_ref().map_or(self.began, |at| at.0);
            let reason = ended.reason.as_deref().unwrap_or("Unknown");
            lines.push(line(at, format!("simulated container {container:?} exited with code {}: {reason}", ended.exit_code)));
            return lines;
        }
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        let known = conditions.into_iter().flatten().find(|condition| condition.type_ == "ContainersReady");
        let since = known.and_then(|condition| condition.last_transition_time.as_ref()).map_or(self.began, |at| at.0.max(self.began));
        if self.status.ready {
            lines.push(line(since, format!("simulated container {container:?} is ready")));
        } else if self.began < since {
            lines.push(line(since, format!("simulated container {container:?} is not ready")));
        }
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        // A container that is deleted without a grace period gets no signal.
        let is_told = 0 < grace || pod.metadata.finalizers.is_some();
        if let Some(end) = pod.metadata.deletion_timestamp.as_ref().filter(|_| is_told) {
            let told = end.0.saturating_sub(SignedDuration::from_secs(grace)).unwrap_or(end.0).max(self.began);
            lines.push(line(told, format!("simulated container {container:?} is told to stop within {grace} s")));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const START: &str = "simulated container \"c\" of image \"i\" started";

    fn pod(status: &Value, annotations: &Value) -> Pod {
        let pod = json!({"metadata": {"name": "p", "annotations": annotations},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}, "status": status});
        serde_json::from_value(pod).expect("a pod")
    }

    fn container(members: &Value) -> Value {
        let mut container = json!({"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0});
        for (name, value) in members.as_object().expect("an object") {
            container[name] = value.clone();
        }
        container
    }

    fn running(since: u32, ready: Option<u32>) -> Value {
        let at = |second: u32| format!("2026-01-01T00:00:{second:02}Z");
        let ready_at = at(ready.unwrap_or(0));
        json!({
            "containerStatuses": [container(&json!({"ready": ready.is_some(), "state": {"running": {"startedAt": at(since)}}}))],
            "conditions": [{"type": "ContainersReady", "status": if ready.is_some() { "True" } else { "False" }, "lastTransitionTime": ready_at}],
        })
    }

    fn crashed(began: u32, ended: u32, state: &Value) -> Value {
        let at = |second: u32| format!("2026-01-01T00:00:{second:02}Z");
        let last = json!({"terminated": {"exitCode": 1, "reason": "Error", "startedAt": at(began), "finishedAt": at(ended)}});
        json!({"containerStatuses": [container(&json!({"state": state, "lastState": last}))]})
    }

    fn log(options: LogOptions) -> Log {
        let bytes_left = options.limit_bytes.map_or(usize::MAX, |bytes| usize::try_from(bytes).expect("small"));
        Log { since: options.since_time, options, container: "c".to_owned(), bytes_left, run: None, shown: None }
    }

    /// Returns the new lines for each of these pods, and whether the log ends there.
    fn read(options: LogOptions, pods: &[Pod]) -> Vec<(Vec<String>, bool)> {
        let mut log = log(options);
        let resource = crate::resource::of::<Pod>();
        let read = |pod: &Pod| {
            let entry = Entry {
                key: berth_store::Key::new("/registry/pods/default/p"),
                value: serde_json::to_vec(pod).expect("JSON").into(),
                header: crate::header::read(&resource.selectable_fields, b"{}"),
                create_revision: berth_store::Revision(1),
                mod_revision: berth_store::Revision(1),
            };
            let news = log.read(resource, &entry);
            (String::from_utf8(news.text).expect("UTF-8").lines().map(str::to_owned).collect(), news.ended)
        };
        pods.iter().map(read).collect()
    }

    #[test]
    fn a_log_has_the_events_of_a_container_in_order_with_the_lines_of_the_annotation() {
        let annotations = json!({"sim.berth.dev/logs": "listening on :8080\nhello"});
        let ready = pod(&running(5, Some(7)), &annotations);
        let told = [START, "listening on :8080", "hello", "simulated container \"c\" is ready"].map(str::to_owned).to_vec();
        assert_eq!(read(LogOptions::default(), std::slice::from_ref(&ready)), [(told, false)]);
        let stamped = LogOptions { timestamps: true, tail_lines: Some(1), ..LogOptions::default() };
        let line = "2026-01-01T00:00:07.000000000Z simulated container \"c\" is ready".to_owned();
        assert_eq!(read(stamped, std::slice::from_ref(&ready)), [(vec![line], false)]);
        let cut = LogOptions { limit_bytes: Some(9), ..LogOptions::default() };
        assert_eq!(read(cut, &[ready.clone(), ready.clone()]), [(vec!["simulated".to_owned()], true), (vec![], true)]);
        let late = LogOptions { since_time: Some("2026-01-01T00:00:06Z".parse().expect("a time")), ..LogOptions::default() };
        assert_eq!(read(late, &[ready]), [(vec!["simulated container \"c\" is ready".to_owned()], false)]);
    }

    #[test]
    fn a_log_that_is_followed_shows_each_line_once_and_ends_with_its_run() {
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let mut leaving = pod(&running(5, Some(7)), &json!({}));
        leaving.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:40Z")).expect("a time"));
        leaving.metadata.deletion_grace_period_seconds = Some(30);
        let lives = [
            pod(&running(5, None), &json!({})),
            pod(&running(5, Some(7)), &json!({})),
            pod(&running(5, Some(7)), &json!({})),
            leaving,
            pod(&crashed(5, 9, &waiting), &json!({})),
        ];
        let told = |lines: &[&str], ended: bool| (lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>(), ended);
        let expected = [
            told(&[START], false),
            told(&["simulated container \"c\" is ready"], false),
            told(&[], false),
            told(&["simulated container \"c\" is told to stop within 30 s"], false),
            told(&["simulated container \"c\" exited with code 1: Error"], true),
        ];
        assert_eq!(read(LogOptions::default(), &lives), expected);
        let nothing = LogOptions { tail_lines: Some(0), ..LogOptions::default() };
        assert_eq!(read(nothing, &lives[..2]), [told(&[], false), told(&["simulated container \"c\" is ready"], false)]);
        // The next run has another log.
        let again = pod(&crashed(5, 9, &json!({"running": {"startedAt": "2026-01-01T00:00:19Z"}})), &json!({}));
        let exit = "simulated container \"c\" exited with code 1: Error";
        assert_eq!(read(LogOptions::default(), &[lives[0].clone(), again.clone()]), [told(&[START], false), told(&[exit], true)]);
        let previous = LogOptions { previous: true, ..LogOptions::default() };
        assert_eq!(read(previous, std::slice::from_ref(&again)), [told(&[START, exit], true)]);
        assert_eq!(read(LogOptions::default(), &[again]), [told(&[START], false)]);
    }

    #[test]
    fn what_has_not_run_is_refused_in_the_kubelets_words() {
        let refusal = |status: &Value, previous: bool| match Run::of(&pod(status, &json!({})), "c", previous) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        let waiting = |reason: &str| json!({"containerStatuses": [container(&json!({"state": {"waiting": {"reason": reason}}}))]});
        for (status, previous, expected) in [
            (json!({}), false, "container \"c\" in pod \"p\" is not available"),
            (waiting("ContainerCreating"), false, "container \"c\" in pod \"p\" is waiting to start: ContainerCreating"),
            (waiting("ErrImagePull"), false, "container \"c\" in pod \"p\" is waiting to start: image can't be pulled"),
            (waiting("ImagePullBackOff"), false, "container \"c\" in pod \"p\" is waiting to start: trying and failing to pull image"),
            (
                json!({"containerStatuses": [container(&json!({}))]}),
                false,
                "container \"c\" in pod \"p\" is waiting to start - no logs yet",
            ),
            (running(5, None), true, "previous terminated container \"c\" in pod \"p\" not found"),
            (running(5, None), false, ""),
        ] {
            assert_eq!(refusal(&status, previous), expected);
        }
    }

    #[test]
    fn options_are_refused_in_upstreams_words() {
        for (options, expected) in [
            (
                LogOptions { tail_lines: Some(-1), ..LogOptions::default() },
                "tailLines: Invalid value: -1: must be greater than or equal to 0",
            ),
            (LogOptions { limit_bytes: Some(0), ..LogOptions::default() }, "limitBytes: Invalid value: 0: must be greater than 0"),
            (LogOptions { since_seconds: Some(-4), ..LogOptions::default() }, "sinceSeconds: Invalid value: -4: must be greater than 0"),
            (
                LogOptions { since_seconds: Some(1), since_time: Some(Timestamp::UNIX_EPOCH), ..LogOptions::default() },
                "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
            ),
            (LogOptions { has_stream: true, ..LogOptions::default() }, "stream: Forbidden: may not be specified"),
        ] {
            let error = options.validate("p").expect_err("refused").to_string();
            assert_eq!(error, format!("PodLogOptions \"p\" is invalid: {expected}"));
        }
    }

    #[test]
    fn the_container_must_be_clear() {
        let mut pod = pod(&json!({}), &json!({}));
        let choice = |pod: &Pod, wanted: &str| chosen(pod, wanted).map_err(|error| error.to_string());
        assert_eq!(choice(&pod, ""), Ok("c".to_owned()));
        assert_eq!(choice(&pod, "z"), Err("container z is not valid for pod p".to_owned()));
        let spec = pod.spec.as_mut().expect("a spec");
        spec.containers.push(serde_json::from_value(json!({"name": "d"})).expect("a container"));
        spec.init_containers = Some(vec![serde_json::from_value(json!({"name": "i"})).expect("a container")]);
        assert_eq!(choice(&pod, ""), Err("a container name must be specified for pod p, choose one of: [i c d]".to_owned()));
        assert_eq!(choice(&pod, "i"), Ok("i".to_owned()));
    }
}
