//! The commands of the real kubectl that send protobuf (kubectl 1.32 and later; an older one sends JSON and must see the same).

use crate::common::{kubectl_is_here, up};

const FAST: &[&str] = &["--store", "memory", "--nodes", "1", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];

#[test]
fn what_kubectl_creates_by_flags_is_there_as_asked() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    // Each entry: the command, and the expected output of a JSONPath for the created object.
    for (command, object, path, expected) in [
        ("create namespace blue", "namespace blue", "{.status.phase}", "Active"),
        ("create configmap c --from-literal=a=b --from-literal=e=", "configmap c", "{.data}", r#"{"a":"b","e":""}"#),
        ("create secret generic s --from-literal=a=b", "secret s", "{.type} {.data}", r#"Opaque {"a":"Yg=="}"#),
        ("create serviceaccount robot", "serviceaccount robot", "{.metadata.name}", "robot"),
        ("create service clusterip web --tcp=80:8080", "service web", "{.spec.ports[0].port} {.spec.ports[0].targetPort}", "80 8080"),
        ("create service clusterip named --tcp=80:http", "service named", "{.spec.ports[0].targetPort}", "http"),
        (
            "create service externalname far --external-name=a.example",
            "service far",
            "{.spec.type} {.spec.externalName}",
            "ExternalName a.example",
        ),
        ("create quota q --hard=pods=9,requests.cpu=1500m", "quota q", "{.spec.hard}", r#"{"pods":"9","requests.cpu":"1500m"}"#),
        (
            "create pdb p --selector=app=web --min-available=50%",
            "pdb p",
            "{.spec.minAvailable} {.spec.selector}",
            r#"50% {"matchLabels":{"app":"web"}}"#,
        ),
        ("create pdb none --selector=app=web --max-unavailable=0", "pdb none", "{.spec.maxUnavailable}", "0"),
        ("create priorityclass low --value=-7 --preemption-policy=Never", "priorityclass low", "{.value} {.preemptionPolicy}", "-7 Never"),
        (
            "create deployment none --image=none:1 --replicas=0",
            "deployment none",
            "{.spec.replicas} {.spec.template.spec.containers[0].image}",
            "0 none:1",
        ),
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        assert!(berth.kubectl(&words).ends_with(" created\n"), "{command}");
        let [kind, name] = object.split(' ').collect::<Vec<_>>().try_into().expect("a kind and a name");
        assert_eq!(berth.kubectl(&["get", kind, name, "--output", &format!("jsonpath={path}")]), expected, "{command}");
        assert!(berth.kubectl_fails(&words).contains("already exists"), "{command}");
    }
}

#[test]
fn who_may_do_what_is_set_and_asked_by_flags() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    for (command, expected) in [
        ("create role reader --verb=get,list --resource=pods,deployments.apps", "created"),
        ("create clusterrole metrics --verb=get --non-resource-url=/metrics", "created"),
        ("create rolebinding alice-reads --role=reader --user=alice", "created"),
        ("create clusterrolebinding metrics --clusterrole=metrics --group=dev", "created"),
        ("create serviceaccount robot", "created"),
        ("create token robot --duration=10m", "ey"),
        ("auth whoami --as=alice --as-group=dev", "alice"),
        ("auth can-i list pods --as=alice", "yes"),
        ("auth can-i get /metrics --as=bob --as-group=dev", "yes"),
        ("auth can-i --list --as=alice", "deployments.apps"),
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let text = berth.kubectl(&words);
        assert!(text.contains(expected), "{command}: {text}");
    }
    let refused = berth.kubectl_with("", &["auth", "can-i", "delete", "pods", "--as=alice"]);
    assert_eq!(String::from_utf8_lossy(&refused.stdout), "no\n");
}

#[test]
fn a_deployment_made_by_flags_rolls_out_and_is_changed() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    let command = ["create", "deployment", "web", "--image=web:1", "--replicas=2", "--port=80"];
    let dry = berth.kubectl(&[&command[..], &["--dry-run=server", "--output=name"]].concat());
    assert_eq!(dry, "deployment.apps/web\n");
    assert_eq!(berth.kubectl(&command), "deployment.apps/web created\n");
    assert!(berth.kubectl(&["rollout", "status", "deployment/web"]).contains("successfully rolled out"));
    berth.kubectl(&["set", "image", "deployment/web", "web=web:2"]);
    berth.kubectl(&["scale", "deployment/web", "--current-replicas=2", "--replicas=1"]);
    assert!(berth.kubectl(&["rollout", "status", "deployment/web"]).contains("successfully rolled out"));
    let spec = berth.kubectl(&["get", "deployment", "web", "--output=jsonpath={.spec.replicas} {.spec.template.spec.containers[0].image}"]);
    assert_eq!(spec, "1 web:2");
    assert!(berth.kubectl_fails(&["create", "deployment", "Bad_Name", "--image=web:1"]).contains("Invalid value: \"Bad_Name\""));
    assert!(berth.kubectl_fails(&["create", "--namespace=nowhere", "configmap", "c"]).contains("namespaces \"nowhere\" not found"));
}
