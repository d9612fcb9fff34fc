//! A load that the pods of a target share, in place of the usage of simulated pods.

use super::{ContainerSample, PodSample};
use crate::view::PodPhase;
use std::collections::BTreeMap;

/// Replaces the usage of `pods` by equal parts of `load`, in thousandths by resource.
///
/// Ready pods have the load. Other running pods use nothing, because no client sends them requests. Without a ready pod or without a load,
/// no pod has a sample.
pub fn share(load: Option<&BTreeMap<String, i64>>, pods: &mut [PodSample]) {
    let runs = |pod: &PodSample| pod.phase == PodPhase::Running && !pod.is_terminating;
    let is_ready = |pod: &PodSample| runs(pod) && pod.ready.as_ref().is_some_and(|ready| ready.status == "True");
    let ready = i64::try_from(pods.iter().filter(|pod| is_ready(pod)).count()).unwrap_or(i64::MAX);
    let load = load.filter(|_| 0 < ready);
    for pod in pods {
        let part = |amount: i64| if is_ready(pod) { amount / ready } else { 0 };
        let sample = load.filter(|_| runs(pod)).map(|load| ContainerSample {
            // The load is that of whole pods: no metric of a container finds it.
            name: String::new(),
            amounts: load.iter().map(|(resource, amount)| (resource.clone(), part(*amount))).collect(),
        });
        pod.usage = sample.into_iter().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autoscaler::ReadyCondition;

    fn pod(phase: PodPhase, ready: &str) -> PodSample {
        let ready = Some(ReadyCondition { status: ready.to_owned(), since: None });
        let usage = vec![ContainerSample { name: "main".to_owned(), amounts: [("cpu".to_owned(), 7)].into() }];
        PodSample { phase, ready, usage, ..PodSample::default() }
    }

    /// The cpu of each pod, or `None` without a sample.
    fn shared(cpu: Option<i64>, mut pods: Vec<PodSample>) -> Vec<Option<i64>> {
        let load: Option<BTreeMap<String, i64>> = cpu.map(|cpu| [("cpu".to_owned(), cpu)].into());
        share(load.as_ref(), &mut pods);
        pods.iter().map(|pod| pod.usage.first().map(|sample| sample.amounts["cpu"])).collect()
    }

    #[test]
    fn ready_pods_share_a_load_equally_and_others_that_run_have_none_of_it() {
        let (ready, unready) = (pod(PodPhase::Running, "True"), pod(PodPhase::Running, "False"));
        let terminating = PodSample { is_terminating: true, ..ready.clone() };
        let pending = pod(PodPhase::Pending, "False");
        let pods = vec![ready.clone(), unready.clone(), ready.clone(), terminating, pending, ready];
        assert_eq!(shared(Some(300), pods.clone()), [Some(100), Some(0), Some(100), None, None, Some(100)]);
        assert_eq!(shared(Some(100), pods.clone())[0], Some(33));
        assert_eq!(shared(None, pods), [None; 6], "without a load there is no sample, also not the one of a simulated pod");
        assert_eq!(shared(Some(300), vec![unready]), [None], "without a ready pod, the usage is unknown, not zero");
    }
}
