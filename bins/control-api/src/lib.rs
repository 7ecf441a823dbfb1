//! control-api: decides what happens to each address, remembers it and shows it.
//!
//! `http` and `dashboard` call `app` (use cases), `app` calls the store; `runner` carries out what
//! was decided, on the store and the cloud.

pub mod app;
pub mod config;
mod dashboard;
pub mod http;
pub mod runner;
mod start;

pub use start::{Running, run, start};
