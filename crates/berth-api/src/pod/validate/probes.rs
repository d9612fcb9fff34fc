//! Probes and lifecycle hooks.

use super::{names::check_port_name, surroundings::Surroundings};
use crate::{
    Path,
    faults::Faults,
    unset::{list, text},
};
use k8s_openapi::{
    api::core::v1::{Container, ExecAction, GRPCAction, HTTPGetAction, Probe, SleepAction, TCPSocketAction},
    apimachinery::pkg::util::intstr::IntOrString,
};

pub(super) fn validate_lifecycle(container: &Container, path: &Path, pod: &Surroundings<'_>, faults: &mut Faults) {
    let Some(lifecycle) = &container.lifecycle else { return };
    let path = path.child("lifecycle");
    for (field, handler) in [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)] {
        let Some(handler) = handler else { continue };
        let handler = Handler {
            exec: handler.exec.as_ref(),
            http_get: handler.http_get.as_ref(),
            tcp_socket: handler.tcp_socket.as_ref(),
            grpc: None,
            sleep: handler.sleep.as_ref(),
        };
        validate_handler(&handler, &path.child(field), pod, faults);
    }
}

pub(super) fn validate_probes(container: &Container, path: &Path, pod: &Surroundings<'_>, faults: &mut Faults) {
    let only_once = |probe: &Probe, path: &Path, faults: &mut Faults| {
        let threshold = probe.success_threshold.unwrap_or_default();
        if threshold != 1 {
            faults.invalid(&path.child("successThreshold"), threshold, "must be 1");
        }
    };
    if let Some(probe) = &container.liveness_probe {
        let path = path.child("livenessProbe");
        validate_probe(probe, &path, pod, faults);
        only_once(probe, &path, faults);
    }
    if let Some(probe) = &container.readiness_probe {
        let path = path.child("readinessProbe");
        validate_probe(probe, &path, pod, faults);
        if let Some(seconds) = probe.termination_grace_period_seconds {
            faults.invalid(&path.child("terminationGracePeriodSeconds"), seconds, "must not be set for readinessProbes");
        }
    }
    if let Some(probe) = &container.startup_probe {
        let path = path.child("startupProbe");
        validate_probe(probe, &path, pod, faults);
        only_once(probe, &path, faults);
    }
}

fn validate_probe(probe: &Probe, path: &Path, pod: &Surroundings<'_>, faults: &mut Faults) {
    let handler = Handler {
        exec: probe.exec.as_ref(),
        http_get: probe.http_get.as_ref(),
        tcp_socket: probe.tcp_socket.as_ref(),
        grpc: probe.grpc.as_ref(),
        sleep: None,
    };
    validate_handler(&handler, path, pod, faults);
    faults.not_negative(&path.child("initialDelaySeconds"), probe.initial_delay_seconds);
    faults.not_negative(&path.child("timeoutSeconds"), probe.timeout_seconds);
    faults.not_negative(&path.child("periodSeconds"), probe.period_seconds);
    faults.not_negative(&path.child("successThreshold"), probe.success_threshold);
    faults.not_negative(&path.child("failureThreshold"), probe.failure_threshold);
    if let Some(seconds) = probe.termination_grace_period_seconds.filter(|seconds| *seconds <= 0) {
        faults.invalid(&path.child("terminationGracePeriodSeconds"), seconds, "must be greater than 0");
    }
}

/// The action of a probe or hook. Exactly one is set.
struct Handler<'a> {
    exec: Option<&'a ExecAction>,
    http_get: Option<&'a HTTPGetAction>,
    tcp_socket: Option<&'a TCPSocketAction>,
    grpc: Option<&'a GRPCAction>,
    sleep: Option<&'a SleepAction>,
}

fn validate_handler(handler: &Handler<'_>, path: &Path, pod: &Surroundings<'_>, faults: &mut Faults) {
    let mut count = 0;
    let mut first = |field: &str, faults: &mut Faults| {
        count += 1;
        if count > 1 {
            faults.forbidden(&path.child(field), "may not specify more than 1 handler type");
        }
        count == 1
    };
    if let Some(action) = handler.exec
        && first("exec", faults)
        && list(&action.command).is_empty()
    {
        faults.required(&path.child("exec").child("command"), "");
    }
    if let Some(action) = handler.http_get
        && first("httpGet", faults)
    {
        validate_http_get(action, &path.child("httpGet"), faults);
    }
    if let Some(action) = handler.tcp_socket
        && first("tcpSocket", faults)
    {
        validate_port(&action.port, &path.child("tcpSocket").child("port"), faults);
    }
    if let Some(action) = handler.grpc
        && first("grpc", faults)
    {
        faults.port(&path.child("grpc").child("port"), action.port);
    }
    if let Some(action) = handler.sleep
        && first("sleep", faults)
        && !(0..=pod.grace_period_seconds).contains(&action.seconds)
    {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({})", pod.grace_period_seconds);
        faults.invalid(&path.child("sleep"), action.seconds, detail);
    }
    if count == 0 {
        faults.required(path, "must specify a handler type");
    }
}

fn validate_http_get(action: &HTTPGetAction, path: &Path, faults: &mut Faults) {
    faults.set(&path.child("path"), text(&action.path));
    validate_port(&action.port, &path.child("port"), faults);
    faults.one_of(&path.child("scheme"), text(&action.scheme), &["HTTP", "HTTPS"]);
    for (index, header) in list(&action.http_headers).iter().enumerate() {
        faults.form(&path.child("httpHeaders").index(index).child("name"), &header.name, check_header_name);
    }
}

fn check_header_name(value: &str) -> Vec<String> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !value.is_empty() && value.bytes().all(known) {
        return Vec::new();
    }
    let message = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is \
                   '[-A-Za-z0-9]+')";
    vec![message.to_owned()]
}

fn validate_port(port: &IntOrString, path: &Path, faults: &mut Faults) {
    match port {
        IntOrString::Int(number) => faults.port(path, *number),
        IntOrString::String(name) => faults.form(path, name, check_port_name),
    }
}
