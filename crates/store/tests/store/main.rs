//! The store on a real file, under a clock that the tests move.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test: whatever fails here fails it"
)]

mod backups;
mod configuration;
mod damage;
mod doctor;
mod durability;
mod identity;
mod leases;
mod life;
mod lists;
mod random;
mod remove;
mod reports;
mod restart;
mod retention;
mod rules;
mod slots;
mod world;
