//! CronJobs in a model cluster.

mod model;
mod properties;
