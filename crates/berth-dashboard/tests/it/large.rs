//! With ten thousand pods, a page and a change cost what they show, not what the cluster contains.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests; the figures are for people")]

use crate::common::{Running, at, many, pod, shop, start};
use serde_json::{Value, json};
use std::time::Instant;

const WEB: &str = "/ns/shop/deployments/web";

async fn page(running: &Running, cookie: &str) -> (usize, u128) {
    let started = Instant::now();
    let answer = running.get(WEB, cookie).await;
    assert_eq!(answer.code, 200);
    (answer.body.len(), started.elapsed().as_millis())
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_pods_make_no_larger_a_page() {
    let running = start(many()).await;
    let cookie = running.sign_in().await;
    let first = running.page_with(WEB, &cookie, "10,004 pods: 10,003 available").await;
    assert!(first.contains("page 1 of 201"), "they are shown a page at a time");
    let mut times = Vec::new();
    for _ in 0..9 {
        let (bytes, time) = page(&running, &cookie).await;
        assert!(bytes < 100_000, "{bytes} bytes");
        times.push(time);
    }
    times.sort_unstable();
    let (_, seen) = first.split_once("data-seen=\"").unwrap();
    let mut updates = Vec::new();
    let mut seen = seen.split('"').next().unwrap().to_owned();
    for number in 0..5 {
        running.cluster.put("pods", pod(number, false));
        let started = Instant::now();
        let said = running.stream_until(WEB, &seen, &cookie, &format!("{} starting", number + 1)).await;
        assert!(said.len() < 100_000, "{} bytes", said.len());
        seen = said.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap().to_owned();
        updates.push(started.elapsed().as_millis());
    }
    println!("a page: {times:?} ms; from a change to its part, gathering included: {updates:?} ms");
}

/// An untrusted object must not keep the page busy with one number.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_wants_two_thousand_million_pods_costs_what_there_is() {
    let all = shop();
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "all", "uid": "all", "controller": true}]);
    let labels = json!({"app": "all"});
    all.put(
        "statefulsets",
        json!({
            "metadata": {"name": "all", "namespace": "shop", "uid": "all", "generation": 1, "creationTimestamp": at(0)},
            "spec": {
                "replicas": i32::MAX, "serviceName": "all", "podManagementPolicy": "Parallel", "selector": {"matchLabels": labels},
                "updateStrategy": {"type": "RollingUpdate"},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            },
            "status": {"observedGeneration": 1, "replicas": 2},
        }),
    );
    let pod = |name: &str, owners: &Value| {
        json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": labels, "ownerReferences": owners, "creationTimestamp": at(0)},
            "spec": {"nodeName": "node-1"}, "status": {"phase": "Running"},
        })
    };
    for name in ["all-0", "all-2147483646"] {
        all.put("pods", pod(name, &owner));
    }
    all.put("pods", pod("all-7", &json!([])));
    let running = start(all).await;
    let cookie = running.sign_in().await;
    let page = running.page_with("/ns/shop/statefulsets/all", &cookie, "2 pods").await;
    assert!(page.contains("all-2147483646") && page.contains("0 of 2147483647 available"), "{page}");
}

/// Twenty templates of two hundred variables each are compared only once, for any number of renderings.
#[tokio::test(flavor = "multi_thread")]
async fn revisions_are_compared_once() {
    let all = shop();
    let labels = json!({"app": "old"});
    let template = |number: usize| {
        let env: Vec<Value> = (0..200).map(|name| json!({"name": format!("V{name}"), "value": format!("{}", name * number)})).collect();
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": format!("i:{number}"), "env": env}]}})
    };
    let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "old", "uid": "old", "controller": true}]);
    let revision = |number: usize| json!({"deployment.kubernetes.io/revision": number.to_string()});
    all.put(
        "deployments",
        json!({
            "metadata": {"name": "old", "namespace": "shop", "uid": "old", "generation": 1, "creationTimestamp": at(0), "annotations": revision(20)},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template(20)},
            "status": {"observedGeneration": 1},
        }),
    );
    let set = |number: usize, replicas: usize| {
        let name = format!("old-{number}");
        json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": labels, "ownerReferences": owner, "annotations": revision(number), "creationTimestamp": at(0)},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template(number)},
            "status": {"replicas": replicas, "observedGeneration": 1},
        })
    };
    (1..=20).for_each(|number| all.put("replicasets", set(number, 0)));
    let running = start(all).await;
    let cookie = running.sign_in().await;
    running.page_with("/", &cookie, "old").await;
    let path = "/ns/shop/deployments/old";
    let mut times = Vec::new();
    for round in 0..6 {
        // A changed status decodes the object again, with an equal template.
        running.cluster.put("replicasets", set(20, round));
        let started = Instant::now();
        let page = running.page_with(path, &cookie, "200 differences").await;
        times.push(started.elapsed().as_millis());
        assert_eq!(page.matches("200 differences").count(), 19);
    }
    println!("a page of twenty revisions, the first time and later: {times:?} ms");
}
