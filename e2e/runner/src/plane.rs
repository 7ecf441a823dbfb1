//! Owns the joint between the simulated cloud and the stage: a binding becomes packets.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use async_trait::async_trait;
use civ_cloudsim::{DataPlane, Way};

use crate::stage::Stage;
use crate::stage::fault::Ways;

/// The stage as the simulated cloud's network. Remembers what went wrong, for the audit.
pub(crate) struct StagePlane {
    stage: Arc<dyn Stage>,
    faults: Mutex<Vec<String>>,
}

impl fmt::Debug for StagePlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagePlane").finish_non_exhaustive()
    }
}

impl StagePlane {
    /// For one scenario.
    pub(crate) fn new(stage: Arc<dyn Stage>) -> Self {
        Self {
            stage,
            faults: Mutex::default(),
        }
    }

    /// What the stage could not do; empty when all went well.
    pub(crate) fn faults(&self) -> Vec<String> {
        self.faults
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn note(&self, what: &str, result: Result<()>) {
        if let Err(error) = result {
            self.faults
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(format!("{what}: {error:#}"));
        }
    }

    async fn open(&self, floating: IpAddr, fixed: IpAddr, ways: Ways) {
        let result = match both_v4(floating, fixed) {
            Ok((floating, fixed)) => self.stage.associate(floating, fixed, ways).await,
            Err(error) => Err(error),
        };
        self.note(&format!("associating {floating} with {fixed}"), result);
    }
}

#[async_trait]
impl DataPlane for StagePlane {
    async fn associate(&self, floating: IpAddr, fixed: IpAddr) {
        self.open(floating, fixed, Ways::Both).await;
    }

    async fn associate_partial(&self, floating: IpAddr, fixed: IpAddr, way: Way) {
        let ways = match way {
            Way::Egress => Ways::Egress,
            Way::Inbound => Ways::Inbound,
        };
        self.open(floating, fixed, ways).await;
    }

    async fn disassociate(&self, floating: IpAddr, fixed: IpAddr) {
        let result = match both_v4(floating, fixed) {
            Ok((floating, fixed)) => self.stage.disassociate(floating, fixed).await,
            Err(error) => Err(error),
        };
        self.note(&format!("disassociating {floating} from {fixed}"), result);
    }
}

fn both_v4(floating: IpAddr, fixed: IpAddr) -> Result<(Ipv4Addr, Ipv4Addr)> {
    match (floating, fixed) {
        (IpAddr::V4(floating), IpAddr::V4(fixed)) => Ok((floating, fixed)),
        _ => bail!("the stage has IPv4 addresses only"),
    }
}
