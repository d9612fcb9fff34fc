//! The current workloads of a cluster, for the dashboard and the terminal.
//!
//! Start with [`ClusterCache`](cluster_cache::ClusterCache). It reads a [`Cluster`](berth_controllers::Cluster) with
//! one watch per resource, with the rights of the connected user. It keeps the current state and a short past of each
//! workload ([`board`], [`past`]). Only new readings change them. Other details are computed on request ([`facts`],
//! [`rows`]). The module [`act`] executes a user's actions: first a question with the consequences, then the write.
//!
//! This crate is independent of the presentation. Time and tasks come in through [`Env`](berth_env::Env).

pub mod act;
pub mod board;
pub mod cluster_cache;
pub mod compared;
pub mod difference;
pub mod facts;
pub mod forecaster;
mod newest;
pub mod past;
mod readings;
pub mod rows;
pub mod text;
pub mod views;
