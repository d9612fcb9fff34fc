//! A cluster's workloads, kept current for whoever shows them: the page and the terminal.
//!
//! Start with [`ClusterCache`](cluster_cache::ClusterCache): it follows a [`Cluster`](berth_controllers::Cluster), with the rights of whoever that was connected as, by one watch a resource. Of each
//! workload a look and a short past are kept ([`board`], [`past`]), each changed by what is seen and by nothing else; what is shown besides is made when it is asked for
//! ([`facts`], [`rows`]). What a reader can have done is in [`act`]: first a question that says what will happen, then the write.
//!
//! Nothing here knows how it is shown. Time and tasks come in through [`Env`](berth_env::Env).

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
