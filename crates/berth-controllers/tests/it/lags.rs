//! A cache whose watch delivers nothing any more.

use super::{faulty::Faulty, *};
use berth_controllers::lags::Lags;
use futures::FutureExt;

const LAG_MAX: Duration = Duration::from_secs(10);

#[test]
fn a_cache_whose_watch_brings_nothing_is_reported_until_it_has_caught_up() {
    let running = Running::start("-*");
    let env = running.test_env.env();
    let cluster = Arc::new(Faulty::of(&running));
    let faulty = Arc::clone(&cluster);
    running.run_controllers_over(Arc::<Faulty>::clone(&cluster), "*", Arc::default());
    let metrics = Arc::clone(lock(&running.metrics).last().expect("started"));
    let lags = Arc::new(Lags::new(Arc::clone(&env.clock)));
    env.spawner.spawn("lags", Arc::clone(&lags).follow(cluster, metrics).boxed());
    let behind = || lags.longer_than(LAG_MAX).into_iter().map(|(resource, _)| resource.plural).collect::<Vec<_>>();

    running.create(Some("default"), &deployment("web", 3));
    running.settle();
    assert_eq!((running.count(PODS), behind()), (3, vec![]), "all are where they should be");
    faulty.hold_pods(true);
    running.settle();
    assert_eq!(behind(), Vec::<&str>::new(), "nothing was written that it could miss");
    running.create(Some("default"), &deployment("other", 1));
    running.test_env.run_for(SignedDuration::from_secs(9));
    assert_eq!(behind(), Vec::<&str>::new(), "it may be on its way");
    running.settle();
    assert_eq!(behind(), ["pods"]);
    faulty.hold_pods(false);
    running.settle();
    assert_eq!(behind(), Vec::<&str>::new(), "it has caught up");
}
