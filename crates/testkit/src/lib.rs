//! For tests only: a clock that is set, a real database in a temporary folder, builders, and
//! waiting on a condition instead of sleeping. It leans on libraries, never on a binary.
#![warn(missing_docs)]
#![expect(
    clippy::expect_used,
    reason = "whatever fails here fails the test that uses it"
)]

mod build;
mod clock;
mod eventually;
mod temp_store;

pub use build::{
    CHECK_TARGETS, START, address, addresses, check, fip, nonce, policy, port, rules, seed, site,
    validator,
};
pub use clock::FakeClock;
pub use eventually::{eventually, eventually_within};
pub use temp_store::TempStore;
