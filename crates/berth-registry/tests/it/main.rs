//! Every verb of the registry over a memory store: what a request does and what it answers.

mod admission;
mod apply;
mod authorization;
mod bodies;
mod chain;
mod create;
mod delete;
mod events;
mod gates;
mod known;
mod led;
mod list;
mod outcomes;
mod places;
mod pods;
mod quota;
mod races;
mod records;
mod room;
mod scale;
mod services;
mod split;
mod steps;
mod update;
mod watch;
mod world;
