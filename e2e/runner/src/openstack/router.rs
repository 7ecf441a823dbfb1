//! Owns what the L3 agent of a real cloud does: what Neutron says is bound becomes packets on the
//! stage, and what it says is not does not.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use tokio::task::JoinSet;

use super::rest::{Rest, text};
use crate::stage::Stage;
use crate::stage::fault::Ways;

/// How often Neutron is asked. It takes 20 ms of a processor for the answer.
const PERIOD: Duration = Duration::from_millis(150);

type Flows = BTreeMap<Ipv4Addr, Ipv4Addr>;

/// The router. It stops when this is dropped; what flows then flows on.
pub(crate) struct Router {
    faults: Arc<Mutex<Vec<String>>>,
    _task: JoinSet<()>,
}

impl Router {
    /// For the floating IPs of `rest`'s project that are bound to a VM of the stage.
    pub(crate) fn start(stage: Arc<dyn Stage>, rest: Rest) -> Self {
        let faults: Arc<Mutex<Vec<String>>> = Arc::default();
        let (mut task, notes) = (JoinSet::new(), Arc::clone(&faults));
        task.spawn(async move {
            let mut flows = Flows::new();
            loop {
                if let Err(error) = follow(stage.as_ref(), &rest, &mut flows).await {
                    let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
                    notes.push(format!("the router: {error:#}"));
                }
                tokio::time::sleep(PERIOD).await;
            }
        });
        Self {
            faults,
            _task: task,
        }
    }

    /// What went wrong; empty when all went well.
    pub(crate) fn faults(&self) -> Vec<String> {
        let faults = self.faults.lock();
        faults.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn follow(stage: &dyn Stage, rest: &Rest, flows: &mut Flows) -> Result<()> {
    let fields = "fields=floating_ip_address&fields=fixed_ip_address&fields=port_id";
    let rows = rest.all("floatingips", fields).await?;
    let wanted: Flows = rows.iter().filter_map(|row| flow(stage, row)).collect();
    let old: Vec<_> = flows
        .iter()
        .filter(|(floating, fixed)| wanted.get(floating) != Some(fixed))
        .map(|(floating, fixed)| (*floating, *fixed))
        .collect();
    for (floating, fixed) in old {
        stage.disassociate(floating, fixed).await?;
        flows.remove(&floating);
    }
    for (floating, fixed) in wanted {
        if flows.insert(floating, fixed) != Some(fixed) {
            stage.associate(floating, fixed, Ways::Both).await?;
        }
    }
    Ok(())
}

fn flow(stage: &dyn Stage, row: &Value) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let fixed: Ipv4Addr = text(row, "fixed_ip_address").parse().ok()?;
    let plan = stage.plan();
    let is_vm = (1..=plan.vms).any(|n| plan.fixed(n) == fixed);
    let floating = text(row, "floating_ip_address").parse().ok()?;
    is_vm.then_some((floating, fixed))
}
