//! The machine of one address, from outside.
#![expect(clippy::unwrap_used, reason = "tests")]

mod matrix;
mod properties;
mod rules;
mod world;
