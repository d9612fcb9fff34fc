//! The real kubectl against a real `berth up`: typical commands of a user.

use crate::common::{deployment, kubectl_is_here, up};

/// Pods that start and stop almost at once, so that only the tested operations take time.
const FAST: &[&str] = &["--store", "memory", "--nodes", "3", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];

#[test]
fn a_manifest_is_applied_scaled_updated_undone_and_deleted() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    assert_eq!(berth.apply(&deployment("web", 3, "web:1")), "deployment.apps/web created\n");
    assert_eq!(berth.apply(&deployment("web", 3, "web:1")), "deployment.apps/web unchanged\n");
    assert!(berth.kubectl(&["rollout", "status", "deployment/web"]).contains("successfully rolled out"));

    berth.kubectl(&["scale", "deployment/web", "--replicas", "5"]);
    berth.kubectl(&["wait", "--for=jsonpath={.status.availableReplicas}=5", "deployment/web", "--timeout=60s"]);
    assert_eq!(berth.kubectl(&["get", "pods", "-l", "app=web", "-o", "name"]).lines().count(), 5);

    berth.kubectl(&["set", "image", "deployment/web", "main=web:2"]);
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    berth.kubectl_until(&["get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}"], |images| {
        images.split(' ').count() == 5 && images.split(' ').all(|image| image == "web:2")
    });
    let history = berth.kubectl(&["rollout", "history", "deployment/web"]);
    assert!(history.contains("REVISION") && history.lines().any(|line| line.starts_with('2')), "{history}");

    assert!(berth.kubectl(&["rollout", "undo", "deployment/web"]).contains("rolled back"));
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    assert_eq!(berth.kubectl(&["get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}"]), "web:1");

    berth.kubectl(&["delete", "deployment", "web"]);
    berth.kubectl_until(&["get", "pods,replicasets", "-o", "name"], str::is_empty);
}

#[test]
fn a_daemon_set_is_rolled_out_updated_undone_and_restarted() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    let daemon_set =
        deployment("agent", 1, "agent:1").replace("kind: Deployment", "kind: DaemonSet").replace("replicas: 1", "minReadySeconds: 0");
    assert_eq!(berth.apply(&daemon_set), "daemonset.apps/agent created\n");
    let status = || berth.kubectl(&["rollout", "status", "daemonset/agent"]);
    assert!(status().contains(r#"daemon set "agent" successfully rolled out"#));
    let images = |wanted: &str| {
        berth.kubectl_until(&["get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}"], |images| {
            images == [wanted; 3].join(" ")
        })
    };
    berth.kubectl(&["set", "image", "daemonset/agent", "main=agent:2"]);
    status();
    images("agent:2");
    let history = berth.kubectl(&["rollout", "history", "daemonset/agent"]);
    assert!(history.lines().any(|line| line.starts_with('2')), "{history}");
    assert!(berth.kubectl(&["rollout", "undo", "daemonset/agent"]).contains("rolled back"));
    status();
    images("agent:1");
    berth.kubectl(&["rollout", "restart", "daemonset/agent"]);
    status();
    let drained = berth.kubectl(&["drain", "node-1", "--ignore-daemonsets"]);
    assert!(drained.contains("node/node-1 drained"), "{drained}");
    assert_eq!(berth.kubectl(&["get", "daemonset", "agent", "-o", "jsonpath={.status.numberAvailable}"]), "3");
}

#[test]
fn a_cron_job_creates_jobs_and_a_client_creates_one_from_it() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    let manifest = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: backup}\nspec:\n  schedule: '@every 2s'\n  jobTemplate: {spec: \
                    {template: {spec: {restartPolicy: Never, containers: [{name: main, image: backup:1}]}}}}\n";
    assert_eq!(berth.apply(manifest), "cronjob.batch/backup created\n");
    let field = |name: &'static str, path: &str| berth.kubectl(&["get", name, "-o", &format!("jsonpath={path}")]);
    berth.kubectl_until(&["get", "cronjob/backup", "-o", "jsonpath={.status.lastSuccessfulTime}"], |time| !time.is_empty());
    assert!(berth.kubectl(&["create", "job", "by-hand", "--from=cronjob/backup"]).contains("job.batch/by-hand created"));
    berth.kubectl(&["wait", "--for=condition=complete", "job/by-hand", "--timeout=60s"]);
    let owner = field("job/by-hand", "{.metadata.ownerReferences[0].kind} {.metadata.ownerReferences[0].controller}");
    assert_eq!(owner, "CronJob true");
    berth.kubectl(&["patch", "cronjob", "backup", "-p", r#"{"spec": {"suspend": true}}"#]);
    berth.kubectl_until(&["get", "cronjob/backup", "-o", "jsonpath={.spec.suspend} {.status.active}"], |text| text.trim_end() == "true");
    let events = ["SuccessfulCreate", "SawCompletedJob", "Saw a job that the controller did not create or forgot: by-hand"];
    berth.kubectl_until(&["describe", "cronjob", "backup"], |text| events.iter().all(|event| text.contains(event)));
    berth.kubectl(&["delete", "cronjob", "backup"]);
    berth.kubectl_until(&["get", "jobs,pods", "-o", "name"], str::is_empty);
}

#[test]
fn a_bad_update_stops_at_max_unavailable_and_is_undone() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    berth.apply(&deployment("web", 4, "web:1"));
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    let patch =
        r#"{"spec":{"progressDeadlineSeconds":2,"template":{"metadata":{"annotations":{"sim.berth.dev/fails":"ImagePullBackOff"}}}}}"#;
    berth.kubectl(&["patch", "deployment", "web", "--patch", patch]);
    assert!(berth.kubectl_fails(&["rollout", "status", "deployment/web"]).contains("exceeded its progress deadline"));
    assert_eq!(berth.kubectl(&["get", "deployment", "web", "-o", "jsonpath={.status.availableReplicas}"]), "3");
    assert!(berth.kubectl(&["get", "pods"]).contains("ImagePullBackOff"));
    berth.kubectl(&["rollout", "undo", "deployment/web"]);
    berth.kubectl(&["rollout", "status", "deployment/web"]);
}

#[test]
fn pause_holds_a_change_back_and_resume_lets_it_go() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    berth.apply(&deployment("web", 2, "web:1"));
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    berth.kubectl(&["rollout", "pause", "deployment/web"]);
    berth.kubectl(&["set", "image", "deployment/web", "main=web:2"]);
    berth.kubectl(&["scale", "deployment/web", "--replicas", "3"]);
    berth.kubectl(&["wait", "--for=jsonpath={.status.availableReplicas}=3", "deployment/web", "--timeout=60s"]);
    assert_eq!(berth.kubectl(&["get", "replicasets", "-o", "name"]).lines().count(), 1);
    berth.kubectl(&["rollout", "resume", "deployment/web"]);
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    assert_eq!(berth.kubectl(&["get", "replicasets", "-o", "name"]).lines().count(), 2);
    berth.kubectl(&["rollout", "restart", "deployment/web"]);
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    assert_eq!(berth.kubectl(&["get", "replicasets", "-o", "name"]).lines().count(), 3);
    berth.kubectl(&["rollout", "pause", "deployment/web"]);
    assert!(berth.kubectl_fails(&["rollout", "undo", "deployment/web"]).contains("paused"));
}

#[test]
fn each_cascade_has_its_effect() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    for cascade in ["background", "foreground", "orphan"] {
        let name = format!("web-{cascade}");
        berth.apply(&deployment(&name, 2, "web:1"));
        berth.kubectl(&["rollout", "status", &format!("deployment/{name}")]);
        berth.kubectl(&["delete", "deployment", &name, &format!("--cascade={cascade}")]);
        let selector = format!("app={name}");
        let left = ["get", "replicasets,pods", "-l", selector.as_str(), "-o", "name"];
        match cascade {
            "foreground" => assert_eq!(berth.kubectl(&left), ""),
            "background" => drop(berth.kubectl_until(&left, str::is_empty)),
            _ => {
                assert_eq!(berth.kubectl(&left).lines().count(), 3);
                let owners = berth.kubectl(&["get", "replicasets", "-l", &selector, "-o", "jsonpath={.items[*].metadata.ownerReferences}"]);
                assert_eq!(owners, "");
                // A new Deployment with the same selector and template adopts the orphans.
                berth.apply(&deployment(&name, 2, "web:1"));
                berth.kubectl(&["rollout", "status", &format!("deployment/{name}")]);
                assert_eq!(berth.kubectl(&left).lines().count(), 3);
            }
        }
    }
}

#[test]
fn reading_works_in_every_form() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    berth.apply(&deployment("web", 3, "web:1"));
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    assert!(berth.kubectl(&["get", "deployments"]).contains("3/3"));
    assert!(berth.kubectl(&["get", "deploy", "web", "-o", "wide"]).contains("web:1"));
    assert!(berth.kubectl(&["get", "deploy", "web", "-o", "yaml"]).contains("progressDeadlineSeconds: 600"));
    assert!(berth.kubectl(&["get", "deploy", "web", "-o", "json"]).contains("\"MinimumReplicasAvailable\""));
    assert_eq!(berth.kubectl(&["get", "deploy", "-o", "name"]), "deployment.apps/web\n");
    assert_eq!(berth.kubectl(&["get", "pods", "--chunk-size=1", "-o", "name"]).lines().count(), 3);
    assert_eq!(berth.kubectl(&["get", "pods", "--field-selector", "status.phase=Running", "-o", "name"]).lines().count(), 3);
    assert_eq!(berth.kubectl(&["get", "pods", "--field-selector", "status.phase!=Running", "-o", "name"]), "");
    assert!(berth.kubectl(&["describe", "deployment", "web"]).contains("ScalingReplicaSet"));
    assert!(berth.kubectl(&["describe", "pods"]).contains("Successfully assigned"));
    assert!(berth.kubectl(&["describe", "nodes"]).contains("Ready"));
    assert!(berth.kubectl(&["get", "events"]).contains("SuccessfulCreate"));
    assert!(berth.kubectl(&["get", "all"]).contains("replicaset.apps/web-"));
    assert!(berth.kubectl(&["explain", "deployment.spec.podReplacementPolicy"]).contains("TerminationComplete"));
    assert!(berth.kubectl(&["api-resources"]).contains("statefulsets"));
    assert!(berth.kubectl(&["version"]).contains("Server Version: v1.36"));
}

#[test]
fn writing_works_in_every_form() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    let created = berth.kubectl_with(&deployment("web", 1, "web:1"), &["create", "--filename", "-"]);
    assert_eq!(String::from_utf8_lossy(&created.stdout), "deployment.apps/web created\n");
    berth.kubectl(&["label", "deployment", "web", "tier=front"]);
    assert_eq!(berth.kubectl(&["get", "deploy", "-l", "tier=front", "-o", "name"]), "deployment.apps/web\n");
    berth.kubectl(&["annotate", "deployment", "web", "note=hello"]);
    for (kind, patch) in [
        ("strategic", r#"{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"A","value":"1"}]}]}}}}"#),
        ("merge", r#"{"spec":{"minReadySeconds":1}}"#),
        ("json", r#"[{"op":"add","path":"/spec/revisionHistoryLimit","value":3}]"#),
    ] {
        assert!(berth.kubectl(&["patch", "deploy", "web", "--type", kind, "--patch", patch]).contains("patched"));
    }
    let spec = berth.kubectl(&["get", "deploy", "web", "-o", "jsonpath={.spec.minReadySeconds} {.spec.revisionHistoryLimit} {.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].env[0].name}"]);
    assert_eq!(spec, "1 3 web:1 A");
    let unknown = deployment("typo", 1, "web:1").replace("replicas:", "replicsa:");
    let refused = berth.kubectl_with(&unknown, &["apply", "--filename", "-"]);
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("unknown field \"spec.replicsa\""),
        "{}",
        String::from_utf8_lossy(&refused.stderr)
    );
    let invalid = deployment("bad", 1, "web:1").replace("matchLabels: {app: bad}", "matchLabels: {app: other}");
    let refused = berth.kubectl_with(&invalid, &["apply", "--filename", "-"]);
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("does not match template `labels`"),
        "{}",
        String::from_utf8_lossy(&refused.stderr)
    );
    berth.kubectl(&["delete", "deployment", "web", "--wait"]);
    berth.kubectl_fails(&["get", "deployment", "web"]);
}

#[test]
fn what_simulated_pods_cannot_do_is_refused() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    berth.apply(&deployment("web", 1, "web:1"));
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    let pod = berth.kubectl(&["get", "pods", "-o", "name"]);
    let pod = pod.trim();
    for (command, why) in [
        (&["exec", pod, "--", "ls"][..], "no container runs in which a command could be executed"),
        (&["attach", pod], "no container runs to which one could attach"),
        (&["port-forward", pod, ":80"], "no container runs to which a port could be forwarded"),
        (
            &["cp", &format!("{}:/etc/hosts", pod.trim_start_matches("pod/")), "hosts"],
            "no container runs in which a command could be executed",
        ),
        (&["debug", pod, "--image=busybox"], "no ephemeral container could run beside the others"),
    ] {
        let told = berth.kubectl_fails(command);
        assert!(told.contains(&format!("pods are simulated: {why}")), "{command:?}: {told}");
    }
}

#[test]
fn logs_show_the_life_of_a_simulated_container_and_its_annotated_lines() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    berth.apply(&deployment("web", 1, "web:1"));
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    let pod = berth.kubectl(&["get", "pods", "-o", "name"]);
    let pod = pod.trim();
    berth.kubectl(&["annotate", pod, "sim.berth.dev/logs=listening on :8080"]);
    let lines = |arguments: &[&str]| berth.kubectl(&[&["logs"], arguments].concat()).lines().map(str::to_owned).collect::<Vec<_>>();
    let whole = lines(&[pod]);
    assert_eq!(whole.len(), 3, "{whole:?}");
    assert!(whole[0].starts_with("simulated container ") && whole[0].ends_with("\"web:1\" started"), "{whole:?}");
    assert!(whole[1] == "listening on :8080" && whole[2].ends_with(" is ready"), "{whole:?}");
    assert_eq!(lines(&["deployment/web"]), whole);
    assert_eq!(lines(&[pod, "--tail=1"]), whole[2..]);
    assert_eq!(lines(&[pod, "--since=1h", "--all-containers"]), whole);
    let stamped = lines(&[pod, "--timestamps"]);
    assert!(stamped[1].ends_with("Z listening on :8080") && stamped[1].starts_with("20"), "{stamped:?}");
    assert_eq!(berth.kubectl(&["logs", "--follow", "--limit-bytes=9", pod]), "simulated");
    assert!(berth.kubectl_fails(&["logs", pod, "-c", "other"]).contains("container other is not valid for pod"));
    assert!(berth.kubectl_fails(&["logs", pod, "--previous"]).contains("previous terminated container"));
    assert!(berth.kubectl_fails(&["logs", "nobody"]).contains("pods \"nobody\" not found"));
}

#[test]
fn a_kind_that_is_not_defined_has_no_match() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    let refused = |manifest: &str| {
        let output = berth.kubectl_with(manifest, &["apply", "--filename", "-"]);
        assert!(!output.status.success(), "applied:\n{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let told = refused("apiVersion: e.com/v1\nkind: Ship\nmetadata:\n  name: s\n");
    assert!(told.contains("no matches for kind \"Ship\" in version \"e.com/v1\""), "{told}");
    assert!(berth.kubectl(&["get", "crds"]).is_empty());
    assert!(berth.kubectl(&["api-resources", "--api-group=apiextensions.k8s.io"]).contains("customresourcedefinitions"));
}

#[test]
fn every_kind_is_described_and_explained() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    for example in ["shop", "database"] {
        let manifest = format!("{}/../../examples/{example}.yaml", env!("CARGO_MANIFEST_DIR"));
        berth.kubectl(&["apply", "--filename", &manifest]);
    }
    berth.kubectl(&["rollout", "status", "statefulset/db"]);
    for (kind, shown) in [
        ("deployments", "MinReadySeconds:"),
        ("replicasets", "Controlled By: Deployment/"),
        ("statefulsets", "Volume Claims:"),
        ("pods", "QoS Class:"),
        ("services", "Session Affinity:"),
        ("poddisruptionbudgets", "Allowed disruptions:"),
        ("configmaps", "gift-cards: true"),
        ("secrets", "password:"),
        ("persistentvolumeclaims", "Used By: db-0"),
        ("persistentvolumes", "Claim: default/data-db-0"),
        ("storageclasses", "berth.dev/simulated"),
        ("nodes", "Allocated resources:"),
        ("namespaces", "Active"),
        ("serviceaccounts", "Tokens:"),
        ("leases", "Holder Identity:"),
        ("clusterroles", "PolicyRule:"),
        ("controllerrevisions", "Revision:"),
        ("events", "Reason:"),
    ] {
        let scope = if kind == "clusterroles" { &[][..] } else { &["--all-namespaces"] };
        let text = berth.kubectl(&[&["describe", kind], scope].concat());
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(shown), "{kind}: {text}");
        assert!(berth.kubectl(&["explain", kind, "--recursive"]).contains("metadata\t<ObjectMeta>"), "{kind}");
    }
    let old_form = berth.kubectl(&["explain", "deployments", "--output=plaintext-openapiv2"]);
    assert!(old_form.contains("metadata\t<Object>"), "{old_form}");
}

#[test]
fn a_node_is_drained_under_a_budget() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    berth.apply(&deployment("web", 3, "web:1"));
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    let node = berth.kubectl(&["get", "pods", "-o", "jsonpath={.items[0].spec.nodeName}"]);
    berth.kubectl(&["create", "poddisruptionbudget", "web", "--selector=app=web", "--min-available=3"]);
    berth.kubectl(&["wait", "--for=jsonpath={.status.expectedPods}=3", "poddisruptionbudget/web", "--timeout=60s"]);
    let told = berth.kubectl_fails(&["drain", &node, "--timeout=1s"]);
    assert!(told.contains("Cannot evict pod as it would violate the pod's disruption budget."), "{told}");
    berth.kubectl(&["patch", "poddisruptionbudget", "web", "--type=merge", "--patch", r#"{"spec":{"minAvailable":2}}"#]);
    assert!(berth.kubectl(&["drain", &node, "--timeout=60s"]).ends_with(&format!("node/{node} drained\n")));
    let on_it = format!("spec.nodeName={node}");
    assert_eq!(berth.kubectl(&["get", "pods", "--field-selector", &on_it, "-o", "name"]), "");
    assert!(berth.kubectl(&["get", "nodes"]).contains("Ready,SchedulingDisabled"));
    berth.kubectl(&["uncordon", &node]);
    berth.kubectl(&["taint", "node", &node, "team=a:NoSchedule"]);
}

#[test]
fn an_object_is_edited_replaced_compared_and_waited_for() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    let web = deployment("web", 2, "web:1");
    berth.apply(&web);
    assert!(berth.kubectl(&["edit", "deployment", "web"]).contains("deployment.apps/web edited"));
    assert_eq!(berth.kubectl(&["get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}"]), "web:edited");
    let diff = berth.kubectl_with(&web, &["diff", "--filename", "-"]);
    assert!(String::from_utf8_lossy(&diff.stdout).contains("\n-      - image: web:edited\n+      - image: web:1\n"));
    assert_eq!(diff.status.code(), Some(1));
    let uid = berth.kubectl(&["get", "deployment", "web", "-o", "jsonpath={.metadata.uid}"]);
    let replaced = berth.kubectl_with(&web, &["replace", "--force", "--filename", "-"]);
    assert!(String::from_utf8_lossy(&replaced.stdout).contains("deployment.apps/web replaced"));
    assert_ne!(berth.kubectl(&["get", "deployment", "web", "-o", "jsonpath={.metadata.uid}"]), uid);
    berth.kubectl(&["wait", "--for=condition=Available", "deployment/web", "--timeout=60s"]);
    assert!(berth.kubectl(&["events", "--for", "deployment/web"]).contains("Scaled up replica set"));
    berth.kubectl(&["delete", "deployment", "web", "--wait=false", "--cascade=foreground"]);
    berth.kubectl(&["wait", "--for=delete", "deployment/web", "--timeout=60s"]);
}

/// Kinds that charts contain. They are stored, validated and shown.
#[test]
fn autoscalers_ingresses_and_policies_are_shown() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    berth.apply(
        "apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {maxReplicas: 4, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: nginx}
spec: {controller: k8s.io/ingress-nginx}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web}
spec: {podSelector: {matchLabels: {app: web}}}
",
    );
    berth.kubectl(&["create", "ingress", "web", "--class=nginx", "--rule=shop.example.com/=web:80,tls=cert"]);
    let shown = berth.kubectl(&["get", "hpa,ingresses,ingressclasses,netpol"]);
    let shown: Vec<String> = shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in [
        "horizontalpodautoscaler.autoscaling/web Deployment/web cpu: <unknown>/80% 1 4 0 ",
        "ingress.networking.k8s.io/web nginx shop.example.com 80, 443 ",
        "ingressclass.networking.k8s.io/nginx k8s.io/ingress-nginx <none> ",
        "networkpolicy.networking.k8s.io/web app=web ",
    ] {
        assert!(shown.iter().any(|shown| shown.starts_with(line)), "{line} in {shown:#?}");
    }
    let refused = berth.kubectl_fails(&["patch", "hpa", "web", "--type=merge", "--patch", r#"{"spec":{"minReplicas":5}}"#]);
    assert!(refused.contains("spec.maxReplicas: Invalid value: 4: must be greater than or equal to `minReplicas`"), "{refused}");
}

/// The usage of each pod is high for 40 s after its start, then low.
#[test]
fn a_deployment_is_scaled_up_and_down_by_its_usage_which_top_shows() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    let usage = "annotations: {sim.berth.dev/memory: 0s=90Mi 40s=90Mi 41s=10Mi, sim.berth.dev/cpu: 30m}";
    let manifest = deployment("web", 1, "web:1")
        .replace("image: web:1\n", "image: web:1\n          resources: {requests: {cpu: 100m, memory: 100Mi}}\n")
        .replace("    metadata:\n", &format!("    metadata:\n      {usage}\n"));
    assert!(manifest.contains("sim.berth.dev/memory") && manifest.contains("requests"), "{manifest}");
    berth.apply(&manifest);
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    let words = |text: &str| text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>();
    let pods = words(&berth.kubectl(&["top", "pods", "-l", "app=web"]));
    assert_eq!(pods[0], "NAME CPU(cores) MEMORY(bytes)");
    assert!(pods.len() == 2 && pods[1].ends_with(" 30m 90Mi"), "{pods:?}");
    let containers = words(&berth.kubectl(&["top", "pods", "-A", "--containers", "--no-headers"]));
    assert!(
        containers.len() == 1 && containers[0].starts_with("default web-") && containers[0].ends_with(" main 30m 90Mi"),
        "{containers:?}"
    );
    let nodes = words(&berth.kubectl(&["top", "nodes"]));
    assert_eq!((nodes[0].as_str(), nodes.len()), ("NAME CPU(cores) CPU(%) MEMORY(bytes) MEMORY(%)", 4), "{nodes:?}");
    assert_eq!(nodes.iter().filter(|node| node.contains(" 30m ")).count(), 1, "{nodes:?}");
    let listed = words(&berth.kubectl(&["get", "pods.metrics.k8s.io"]));
    assert_eq!(listed[0], "NAME CPU MEMORY WINDOW");

    berth.apply(
        "apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  maxReplicas: 3
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  metrics: [{type: Resource, resource: {name: memory, target: {type: Utilization, averageUtilization: 50}}}]
  behavior: {scaleDown: {stabilizationWindowSeconds: 0}}
",
    );
    let size = &["get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"];
    berth.kubectl_until(size, |size| size == "3");
    let shown = words(&berth.kubectl(&["get", "hpa", "web"]));
    assert!(shown[1].starts_with("web Deployment/web memory: ") && shown[1].contains("%/50% 1 3 "), "{shown:?}");
    berth.kubectl_until(size, |size| size == "1");
    let events = berth.kubectl(&["events", "--for", "hpa/web"]);
    assert!(events.contains("New size: 3; reason: memory resource utilization (percentage of request) above target"), "{events}");
    assert!(events.contains("New size: 1; reason: All metrics below target"), "{events}");
    let described = berth.kubectl(&["describe", "hpa", "web"]);
    assert!(described.contains("ValidMetricFound") && described.contains("resource memory on pods"), "{described}");
}
