//! Some storms of each kind ([`berth_sim::storm`]); `cargo xtask simulate` runs many.

use berth_sim::{seeds, storm};
use std::{cell::Cell, time::Duration};

#[test]
fn limits_hold_in_every_storm_and_all_is_well_after_it() {
    seeds::run(0..24, |seed| drop(storm::deployment(seed)));
}

/// What a step allows holds through pauses, scalings, undos and deletions, and so does a pause.
#[test]
fn shares_and_pauses_hold_in_every_storm_and_all_is_well_after_it() {
    seeds::run(0..16, |seed| drop(storm::deployment_in_steps(seed)));
}

#[test]
fn order_and_revisions_hold_in_every_storm_and_all_is_well_after_it() {
    seeds::run(0..24, |seed| drop(storm::stateful_set(seed)));
}

#[test]
fn claims_go_with_whom_they_should_in_every_storm() {
    seeds::run(0..24, |seed| drop(storm::stateful_set_claims(seed)));
}

/// Two servers share an etcd that fails one of them.
#[test]
fn limits_hold_in_every_storm_over_an_etcd_and_all_is_well_after_it() {
    seeds::run(0..5, |seed| drop(storm::deployment_in_etcd(seed)));
    seeds::run(0..5, |seed| drop(storm::stateful_set_in_etcd(seed)));
}

/// Of two managers one leads; it is stopped with writes on their way, and goes on when the other leads. What it makes then would pass the limits.
#[test]
fn limits_hold_in_every_storm_under_every_leader_and_no_former_leader_creates_anything() {
    seeds::run(0..10, |seed| drop(storm::deployment_with_leaders(seed)));
    // When these were chosen, a write was on its way at that moment, and was refused. One storm in some two hundred has such a write, and which one changes with
    // the order of all events. `fencing::who_leads_no_longer_writes_nothing` of berth-registry holds that it is refused.
    [103, 508, 795, 1074, 1160, 1243].into_iter().for_each(|seed| drop(storm::deployment_with_leaders(seed)));
}

/// docs/simulation.md states what each of them showed.
#[test]
fn storms_that_failed_once_do_so_no_more() {
    [345, 709, 787, 872, 300_284, 303_218, 303_306].into_iter().for_each(|seed| drop(storm::stateful_set(seed)));
    [592, 599, 893, 100_144, 100_642, 301_308, 301_971, 302_025, 502_078, 507_287, 525_096]
        .into_iter()
        .for_each(|seed| drop(storm::deployment(seed)));
    [100_005, 100_122, 100_181, 100_250, 100_846, 100_892, 301_843, 310_531]
        .into_iter()
        .for_each(|seed| drop(storm::deployment_in_etcd(seed)));
    [311_908, 402_576, 520_199, 526_219].into_iter().for_each(|seed| drop(storm::stateful_set_in_etcd(seed)));
    [300_708, 311_164, 311_796, 402_092, 503_358, 508_955].into_iter().for_each(|seed| drop(storm::deployment_with_leaders(seed)));
}

/// The goal of KEP-3541: without faults every recreation is complete within the time that its pods need to stop and to start, and 30 s; and no
/// two revisions are left.
#[test]
#[expect(clippy::print_stdout, reason = "the figures are what it is for")]
fn every_recreation_is_complete_in_time_and_leaves_one_revision() {
    let (slowest, runs) = (Cell::new(Duration::ZERO), Cell::new(0));
    seeds::run(0..20, |seed| {
        let took = storm::recreation(seed);
        assert!(took <= Duration::from_secs(30), "seed {seed}: {took:?} besides termination and start-up");
        slowest.set(slowest.get().max(took));
        runs.set(runs.get() + 1);
    });
    let (runs, slowest) = (runs.get(), slowest.get());
    println!("{runs} recreations: each in time, none with two revisions left; at most {slowest:?} besides termination and start-up");
}
