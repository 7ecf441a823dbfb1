//! The seam: what any cloud must be able to do, and what a floating IP is to us.

use std::fmt::Debug;

use async_trait::async_trait;
use civ_types::{Address, Family, FipId, PortId};

use crate::fault::{Fault, ReadFault, WriteFault};

/// A floating IP as the cloud showed it at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloatingIp {
    /// The cloud's id of it.
    pub id: FipId,
    /// The public address.
    pub address: Address,
    /// The port that it is bound to.
    pub port: Option<PortId>,
    /// The fixed address behind it, while bound.
    pub fixed_address: Option<Address>,
    /// The router that serves it. Set without a port when port forwardings use the address.
    pub router: Option<String>,
    /// Whether port forwardings use it.
    pub forwardings: bool,
    /// Neutron's `revision_number`; `None` where the cloud has none, and then a write is not
    /// conditional and is only checked by reading back.
    pub revision: Option<u64>,
    /// `ACTIVE`, `DOWN`, `ERROR`. It lags, and some clouds never change it.
    pub status: Option<String>,
    /// The external network it is from.
    pub network: Option<String>,
    /// What its owner wrote about it; `None` where the cloud keeps no descriptions.
    pub description: Option<String>,
}

impl FloatingIp {
    /// Whether nobody uses it: no port, no router, no port forwarding.
    #[must_use]
    pub const fn is_free(&self) -> bool {
        self.port.is_none() && self.router.is_none() && !self.forwardings
    }

    /// Whether it is bound to `port`.
    #[must_use]
    pub fn is_on(&self, port: &PortId) -> bool {
        self.port.as_ref() == Some(port)
    }

    /// Who uses it, as an operator reads it.
    #[must_use]
    pub fn usage(&self) -> String {
        match (&self.port, &self.router) {
            (Some(port), _) => format!("bound to port {port}"),
            (None, Some(router)) => format!("used by port forwardings on router {router}"),
            (None, None) if self.forwardings => "used by port forwardings".to_owned(),
            (None, None) => "free".to_owned(),
        }
    }
}

/// A floating IP in a listing of all: no more than is needed, since there may be 100,000.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The cloud's id of it.
    pub id: FipId,
    /// The public address.
    pub address: Address,
    /// As [`FloatingIp::is_free`].
    pub is_free: bool,
}

/// One page of a listing, as the cloud gave it: see [`crate::walk`] for what it may be worth.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Its rows, in the cloud's order.
    pub rows: Vec<Listed>,
    /// Whether more may follow: the cloud says so, or the page is full.
    pub has_more: bool,
}

/// What the product asks of a cloud. Every call is one attempt with its own time limit.
///
/// Writes go through [`crate::guard`], never straight through [`Cloud::set_port`].
#[async_trait]
pub trait Cloud: Send + Sync + Debug {
    /// The families that its floating IPs can have. OpenStack: IPv4 only.
    fn families(&self) -> &[Family];

    /// The floating IP with this address, if the project has one.
    ///
    /// # Errors
    /// [`Fault::Cloud`] if the cloud cannot say; [`Fault::Address`] if there are several.
    async fn find(&self, address: Address) -> Result<Option<FloatingIp>, Fault>;

    /// The floating IP with this id; `None` if there is none (any more).
    ///
    /// # Errors
    /// [`Fault::Cloud`] if the cloud cannot say.
    async fn get(&self, id: &FipId) -> Result<Option<FloatingIp>, Fault>;

    /// All floating IPs that are bound to any of `ports`, each once, in order of id.
    ///
    /// # Errors
    /// [`Fault::Cloud`] if the listing could not be completed: a part of it is never returned.
    async fn on_ports(&self, ports: &[PortId]) -> Result<Vec<FloatingIp>, Fault>;

    /// The page behind the floating IP `after` (from the beginning without one) of a listing of all
    /// floating IPs of the project, or of its configured network; at most `limit` rows.
    ///
    /// # Errors
    /// [`ReadFault`] says whether it is worth asking again.
    async fn page(&self, after: Option<&FipId>, limit: u32) -> Result<Page, ReadFault>;

    /// As [`Self::set_port`] of what was read a moment ago; a cloud that marks what we hold does so
    /// in the same call.
    ///
    /// # Errors
    /// As [`Self::set_port`].
    async fn bind(
        &self,
        seen: &FloatingIp,
        port: Option<&PortId>,
    ) -> Result<FloatingIp, WriteFault> {
        self.set_port(&seen.id, port, seen.revision).await
    }

    /// How many floating IPs a listing of all has to show, by the cloud's own count; `None` where
    /// it does not tell.
    ///
    /// # Errors
    /// [`ReadFault`] says whether it is worth asking again.
    async fn count(&self) -> Result<Option<u64>, ReadFault> {
        Ok(None)
    }

    /// Binds it to `port`, or to none, if its revision still is `revision`. Unguarded.
    ///
    /// # Errors
    /// [`WriteFault::Stale`] if the revision is another one (nothing was changed),
    /// [`WriteFault::AnswerLost`] if the write may or may not have been carried out.
    async fn set_port(
        &self,
        id: &FipId,
        port: Option<&PortId>,
        revision: Option<u64>,
    ) -> Result<FloatingIp, WriteFault>;
}
