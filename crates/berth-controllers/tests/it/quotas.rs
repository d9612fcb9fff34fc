//! Quotas that are counted by nobody else than their controller.

use super::*;
use berth_identity::ApiName;

impl Running {
    /// What caches are there of.
    fn followed(&self) -> Vec<ApiName> {
        let metrics = Arc::clone(&lock(&self.metrics)[0]);
        assert_eq!(metrics.unsynced(), []);
        metrics.reached().into_keys().map(|resource| resource.plural).collect()
    }

    fn used(&self, quota: usize) -> Value {
        self.list(QUOTAS)[quota]["status"]["used"].clone()
    }
}

/// Its metadata caches are of all kinds: where there is no quota, each write of anybody would be for it as well.
#[test]
fn nothing_but_quotas_is_followed_before_there_is_one() {
    let running = Running::start("resourcequota");
    assert_eq!(running.followed(), ["resourcequotas"]);

    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    running.create(Some("default"), &map("before"));
    running.create(
        Some("default"),
        &json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all"},
            "spec": {"hard": {"count/configmaps": "5", "pods": "5"}},
        }),
    );
    running.settle();
    let followed = running.followed();
    assert!(["configmaps", "pods", "services"].iter().all(|plural| followed.iter().any(|followed| followed == plural)), "{followed:?}");
    let count = running.count(GroupResource::from_static("", "configmaps"));
    assert_eq!(running.used(0), json!({"count/configmaps": count.to_string(), "pods": "0"}));

    running.delete(GroupResource::from_static("", "configmaps"), "before", None);
    running.settle();
    assert_eq!(running.used(0), json!({"count/configmaps": (count - 1).to_string(), "pods": "0"}));
}

/// Who must know of all kinds in any case follows them from the start, and the quota has them with it.
#[test]
fn a_quota_counts_what_others_follow() {
    let running = Running::start("resourcequota,garbagecollector");
    assert!(running.followed().contains(&"configmaps".into()), "{:?}", running.followed());
    running.create(
        Some("default"),
        &json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all"},
            "spec": {"hard": {"count/configmaps": "5"}},
        }),
    );
    running.settle();
    let count = running.count(GroupResource::from_static("", "configmaps"));
    assert_eq!(running.used(0), json!({"count/configmaps": count.to_string()}));
}
