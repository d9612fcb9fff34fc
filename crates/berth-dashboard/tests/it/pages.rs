//! Compares rendered pages with reviewed files. `BERTH_BLESS=1` rewrites the files.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{self, at, shop, start, start_foreign};
use serde_json::json;
use std::{env, fs, path::Path};

const WEB: &str = "/ns/shop/deployments/web";

/// Compares with a reviewed file, one tag per line for readable differences.
fn check(name: &str, page: &str) {
    let text = page.replace('>', ">\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
    if env::var_os("BERTH_BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let difference = kept.lines().zip(text.lines()).enumerate().find(|(_, (kept, text))| kept != text);
    assert!(kept == text, "{name} is other than it is kept: {difference:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_as_they_are_kept() {
    let running = start(shop()).await;
    let cookie = running.sign_in().await;
    for (name, path, text) in [
        ("workloads.html", "/", "2 workloads: 1 stuck, 1 complete."),
        ("deployment.html", WEB, "cannot pull &lt;img"),
        ("nodes.html", "/nodes", "not ready"),
        ("node.html", "/nodes/node-1", "deployment/web in shop"),
        ("quotas.html", "/quotas", "of which 1 is full"),
        ("undo.html", "/ns/shop/deployments/web/undo", "It rolls back"),
        ("scale.html", "/ns/shop/deployments/web/scale", "How many pods"),
    ] {
        check(name, &running.page_with(path, &cookie, text).await);
    }
    check("sign-in.html", &running.get("/sign-in?next=/nodes", "").await.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_states_what_blocks_a_rollout_in_the_words_of_the_commands() {
    let running = start(shop()).await;
    let cookie = running.sign_in().await;
    let page = running.page_with(WEB, &cookie, "– web-2-d").await;
    assert!(
        page.contains("Waiting for deployment &quot;web&quot; rollout to finish: 1 out of 3 new replicas have been updated."),
        "{page}"
    );
    assert!(page.contains("– web-2-d cannot pull its image: ImagePullBackOff: Back-off pulling image"), "{page}");
    assert!(page.contains("its node retries the pull, at most five minutes apart"), "{page}");
    assert!(page.contains("berth rollout undo deployment/web -n shop"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_sends_what_is_new_and_resumes_where_it_was_interrupted() {
    let running = start(shop()).await;
    let cookie = running.sign_in().await;
    let page = running.page_with(WEB, &cookie, "web-2-d").await;
    let (_, seen) = page.split_once("data-seen=\"").unwrap();
    let seen = seen.split('"').next().unwrap().to_owned();
    let first = running.stream_until(WEB, &seen, &cookie, "\n\n").await;
    assert!(!first.contains("\"pods\""), "the reader has it: {first}");
    // A browser that reconnects gets the changes that it missed.
    running.cluster.put(
        "events",
        json!({
            "metadata": {"name": "f", "namespace": "shop", "uid": "f"}, "type": "Normal", "reason": "Scaled", "message": "a new thing",
            "involvedObject": {"kind": "Deployment", "name": "web", "namespace": "shop", "uid": "d"}, "lastTimestamp": at(600),
        }),
    );
    let second = running.stream_until(WEB, &seen, &cookie, "a new thing").await;
    let data = second.lines().find(|line| line.contains("a new thing")).unwrap();
    assert!(data.contains("[\"events\",") && !data.contains("[\"pods\","), "only what has changed: {data}");
    let id = second.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap().to_owned();
    let third = running.stream_until(WEB, &id, &cookie, "\n\n").await;
    assert!(!third.contains("a new thing"), "it was told: {third}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_not_read_all_sees_the_rest_and_a_message() {
    let running = start(common::shop_of(&["nodes", "events", "resourcequotas"])).await;
    let cookie = running.sign_in().await;
    let page = running.page_with(WEB, &cookie, "web-2-d").await;
    assert!(page.contains("– web-2-d cannot pull its image"), "{page}");
    running.page_with("/nodes", &cookie, "nodes is forbidden").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_with_a_policy_that_controllers_do_not_honor_has_a_note() {
    let note = "Note: this cluster&#39;s controllers are &lt;b&gt;not&lt;/b&gt; berth&#39;s.";
    for (policy, wanted) in [(json!("TerminationComplete"), true), (json!(null), false)] {
        let all = shop();
        let mut web = all.find("deployments", "web");
        web["spec"]["podReplacementPolicy"] = policy;
        all.put("deployments", web);
        let running = start_foreign(all).await;
        let cookie = running.sign_in().await;
        let page = running.page_with(WEB, &cookie, "web-2-d").await;
        assert_eq!(page.contains(note) || page.contains(&note.replace("&#39;", "'")), wanted, "{page}");
    }
    let running = start(shop()).await;
    let cookie = running.sign_in().await;
    assert!(!running.page_with(WEB, &cookie, "web-2-d").await.contains("Note: "), "berth's own heed it");
}
