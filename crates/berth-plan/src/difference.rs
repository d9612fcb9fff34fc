//! Computes the JSON merge patch from one version of an object to another.

use serde_json::{Map, Value};

/// The members that only a server writes.
const SERVERS: [&str; 6] = ["creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"];

/// The merge patch from `before` to `after`, without members that only a server writes. `None` if they are equal.
pub(crate) fn difference(before: &Value, after: &Value) -> Option<Value> {
    of(&written(before), &written(after))
}

/// The part of an object that clients may write.
pub(crate) fn written(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        SERVERS.iter().for_each(|member| drop(metadata.remove(*member)));
    }
    object
}

/// The part of a server's object that a client writes to create it elsewhere. A server gives a Job a selector and labels with the uid, and those of
/// another server are invalid.
pub(crate) fn creatable(object: &Value) -> Value {
    const OF_SERVER: [&str; 4] = ["batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"];
    let mut object = written(object);
    if object["kind"] == "Job" && object["spec"]["manualSelector"] != true {
        object["spec"].as_object_mut().map(|spec| spec.remove("selector"));
        let labels = object.pointer_mut("/spec/template/metadata/labels").and_then(Value::as_object_mut);
        labels.into_iter().for_each(|labels| labels.retain(|key, _| !OF_SERVER.contains(&key.as_str())));
    }
    object
}

/// The inverse of RFC 7386.
fn of(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let mut patch = Map::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in new {
        match old.get(name) {
            None => drop(patch.insert(name.clone(), value.clone())),
            Some(was) => patch.extend(of(was, value).map(|change| (name.clone(), change))),
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_difference_names_what_changes_and_nothing_else() {
        let object = |spec: Value, version: &str| json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": version}, "spec": spec, "status": {"v": version}});
        let before = object(json!({"a": 1, "gone": {"x": 1}, "list": [1, 2], "deep": {"same": 1, "new": 1}}), "1");
        let after = object(json!({"a": 1, "list": [1, 3], "deep": {"same": 1, "new": 2}, "more": {"y": 1}}), "2");
        let patch = json!({"spec": {"gone": null, "list": [1, 3], "deep": {"new": 2}, "more": {"y": 1}}});
        assert_eq!(difference(&before, &after), Some(patch));
        assert_eq!(difference(&before, &object(before["spec"].clone(), "2")), None);
    }

    #[test]
    fn what_only_a_server_writes_is_no_difference() {
        let before = json!({"metadata": {"name": "a", "labels": {"a": "b"}}, "spec": {}, "status": {}});
        for member in ["creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"] {
            let mut after = before.clone();
            after["metadata"][member] = json!("x");
            assert_eq!((difference(&before, &after), written(&after)), (None, written(&before)), "{member}");
        }
        assert!(written(&before).get("status").is_none());
        let mut after = before.clone();
        after["metadata"]["labels"] = json!({});
        assert_eq!(difference(&before, &after), Some(json!({"metadata": {"labels": {"a": null}}})));
    }

    #[test]
    fn a_job_is_created_elsewhere_without_the_selector_and_labels_that_its_server_generated() {
        let job = |kind: &str, manual: bool| {
            let labels = json!({"app": "work", "controller-uid": "u", "job-name": "work",
                "batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "work"});
            json!({"kind": kind, "metadata": {"name": "work", "uid": "u"}, "status": {"active": 1}, "spec": {
                "manualSelector": manual, "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
                "template": {"metadata": {"labels": labels}}}})
        };
        let expected = json!({"kind": "Job", "metadata": {"name": "work"}, "spec": {
            "manualSelector": false, "template": {"metadata": {"labels": {"app": "work"}}}}});
        assert_eq!(creatable(&job("Job", false)), expected);
        for kept in [job("Job", true), job("Deployment", false)] {
            assert_eq!(creatable(&kept), written(&kept), "a client chose its selector");
        }
    }
}
