//! The words that every other crate uses: ids, addresses, check names, time.
//!
//! Pure: no I/O but the one system clock, no serde (the wire has its own structs in `proto`,
//! the database its own columns in `store`).
#![warn(missing_docs)]

mod addr;
mod check;
mod check_type;
mod event;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod ids;
mod nonce;
mod time;

pub use addr::{AddrError, Address, Family, bounds, parse_list};
pub use check::{CheckName, CheckSpec, Source};
pub use check_type::{EGRESS_CHECKS, OptionKind};
pub use event::{EVENT_TYPES, NOTIFICATION_DROPPED};
pub use ids::{AttemptNo, ClaimNo, CycleId, FipId, IdError, IpId, PortId, SiteId, ValidatorId};
pub use nonce::Nonce;
pub use time::{Clock, EvenClock, SystemClock, TimeError, Utc};
