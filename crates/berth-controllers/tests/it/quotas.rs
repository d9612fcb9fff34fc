//! Quotas that only their own controller counts.

use super::*;
use berth_identity::ApiName;

impl Running {
    /// The resources that have a cache.
    fn followed(&self) -> Vec<ApiName> {
        let metrics = Arc::clone(&lock(&self.metrics)[0]);
        assert_eq!(metrics.unsynced(), []);
        metrics.reached().into_keys().map(|resource| resource.plural).collect()
    }

    fn used(&self, quota: usize) -> Value {
        self.list(QUOTAS)[quota]["status"]["used"].clone()
    }
}

/// The controller's metadata caches cover all kinds. Without a quota, each client's writes would still be sent to them.
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

/// A component that needs all kinds in any case watches them from the start, and the quota controller shares its caches.
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
