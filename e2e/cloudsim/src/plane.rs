//! What makes packets flow, or not, when a floating IP is bound.

use std::fmt::Debug;
use std::net::IpAddr;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// One direction of the 1:1 translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// From the port out through the floating IP.
    Egress,
    /// From outside to the port.
    Inbound,
}

/// The network behind the simulated API. Calls come one at a time, in the order in which the
/// bindings changed; every association is undone by one disassociation with the same addresses.
#[async_trait]
pub trait DataPlane: Send + Sync + Debug {
    /// Lets packets through both ways. Done before the API answers, unless a rule delays it.
    async fn associate(&self, floating: IpAddr, fixed: IpAddr);

    /// Lets packets through one way only.
    async fn associate_partial(&self, floating: IpAddr, fixed: IpAddr, way: Way);

    /// Stops both ways, open flows included. Done before the API answers.
    async fn disassociate(&self, floating: IpAddr, fixed: IpAddr);
}

/// No packets: for tests of the API alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoDataPlane;

#[async_trait]
impl DataPlane for NoDataPlane {
    async fn associate(&self, _floating: IpAddr, _fixed: IpAddr) {}

    async fn associate_partial(&self, _floating: IpAddr, _fixed: IpAddr, _way: Way) {}

    async fn disassociate(&self, _floating: IpAddr, _fixed: IpAddr) {}
}
