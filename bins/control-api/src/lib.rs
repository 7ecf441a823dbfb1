//! control-api: decides what happens to each address, remembers it and shows it.
//!
//! `http` and `dashboard` call `app` (use cases), `app` calls the store; `runner` carries out what
//! was decided, on the store and the cloud; `notify` tells receivers of events; `metrics` is what
//! is counted; `ctl` is a client of the HTTP API and knows nothing of the rest; `check_cloud` tries
//! the cloud before a start; `database` makes backups, puts them back, and looks for what does not
//! fit together.

pub mod app;
pub mod check_cloud;
mod cloud;
pub mod config;
pub mod ctl;
mod dashboard;
pub mod database;
pub mod http;
pub mod metrics;
mod notify;
pub mod runner;
mod start;
mod tls;

pub use start::{Running, go_on, run, run_by_itself, start, start_at};
