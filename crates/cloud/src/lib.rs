//! Floating IPs: what the product asks of a cloud, and OpenStack behind it.
//!
//! [`Cloud`] is the seam. [`guard`] stands on it and is the only way in which the product writes:
//! it takes nothing away from a foreign port and releases nothing that is not ours. Knows nothing
//! of queues, validators or databases; repeats nothing that failed (retries and backoff are the
//! caller's), except what is needed to learn what became of a write.
#![warn(missing_docs)]

mod budget;
mod clip;
mod cloud;
pub mod clouds;
#[cfg(feature = "fake")]
pub mod fake;
mod fault;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod guard;
mod http;
mod keystone;
mod neutron;
mod openstack;
pub mod survey;
pub mod walk;
mod wire;

pub use budget::Budget;
pub use cloud::{Cloud, FloatingIp, Listed, Page};
pub use fault::{Fault, ReadFault, WriteFault};
pub use openstack::{Auth, ConnectError, Domain, OpenStack, OpenStackConfig, Scope, User};
