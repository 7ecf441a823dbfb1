//! `control-api backup`, `restore` and `doctor` as processes, beside a running control-api and
//! without one, against the simulated cloud.
#![expect(clippy::unwrap_used, reason = "a test")]

mod backups;
mod doctor;
mod periodic;
mod place;
mod restored;
