//! What can be known of a cloud before anything is done there: for whoever sets up.

use std::collections::BTreeSet;
use std::time::Duration;

use civ_types::PortId;
use reqwest::Url;
use tokio::time::Instant;

use crate::cloud::FloatingIp;
use crate::fault::{Fault, ReadFault};
use crate::neutron::{MARK, Neutron, Query, decode_read};
use crate::openstack::OpenStack;
use crate::wire::{Amount, ExtensionPage, PortOne, QuotaOne};

/// A login that worked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Id of the project that it is for.
    pub project_id: String,
    /// Its name.
    pub project_name: String,
    /// Names of our roles in it.
    pub roles: Vec<String>,
    /// How long the token lives from now.
    pub lives: Duration,
    /// Neutron's address, without the version.
    pub network_url: String,
}

/// How many floating IPs the project may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// At most; `None`: any number.
    pub limit: Option<u64>,
    /// How many there are; `None` where the cloud does not tell.
    pub used: Option<u64>,
}

/// A port as the cloud shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name, which may be empty.
    pub name: String,
    /// The project that it belongs to.
    pub project_id: String,
    /// What it is plugged into: a server's id, or empty, or `PENDING…` while it is being made.
    pub device_id: String,
    /// `compute:nova`, for example.
    pub device_owner: String,
    /// Whether it is switched on, where the cloud tells.
    pub is_up: Option<bool>,
    /// Its fixed addresses of version 4. A floating IP goes to the one there is.
    pub fixed_v4: Vec<String>,
}

impl OpenStack {
    /// Logs in, or says how we are logged in.
    ///
    /// # Errors
    /// [`ReadFault`] of Keystone.
    pub async fn login(&self) -> Result<Login, ReadFault> {
        let token = self.neutron.session.token(None).await?;
        Ok(Login {
            project_id: token.project.id.clone(),
            project_name: token.project.name.clone(),
            roles: token.roles.clone(),
            lives: token.ends_at.saturating_duration_since(Instant::now()),
            network_url: Url::as_str(&token.network_url).to_owned(),
        })
    }

    /// Aliases of Neutron's extensions.
    ///
    /// # Errors
    /// [`ReadFault`] of Neutron.
    pub async fn extensions(&self) -> Result<BTreeSet<String>, ReadFault> {
        let page: ExtensionPage = self.neutron.read(&["extensions"], &Query::new()).await?;
        let aliases = page.extensions.into_iter().map(|one| one.alias);
        Ok(aliases.collect())
    }

    /// The quota of floating IPs; `None` where the cloud shows none to us.
    ///
    /// # Errors
    /// [`ReadFault`] of Neutron.
    pub async fn quota(&self) -> Result<Option<Quota>, ReadFault> {
        self.neutron.quota().await
    }

    /// The port with this id; `None` if there is none, or none that is shown to us.
    ///
    /// # Errors
    /// [`ReadFault`] of Neutron.
    pub async fn port(&self, id: &PortId) -> Result<Option<Port>, ReadFault> {
        let path = ["ports", id.as_str()];
        let answer = self.neutron.ask(&path, &Query::new()).await?;
        let refusal = (answer.status == 404).then(|| answer.refusal());
        if refusal.is_some_and(|why| why.body.kind.as_deref() == Some("PortNotFound")) {
            return Ok(None);
        }
        let PortOne { port } = decode_read(&answer)?;
        let addresses = port.fixed_ips.into_iter().map(|one| one.ip_address);
        Ok(Some(Port {
            name: port.name,
            project_id: port.project_id,
            device_id: port.device_id,
            device_owner: port.device_owner,
            is_up: port.admin_state_up,
            fixed_v4: addresses.filter(|text| text.contains('.')).collect(),
        }))
    }

    /// The floating IPs whose description says that we hold them, in order of id.
    ///
    /// # Errors
    /// [`Fault::Cloud`] if the listing could not be completed.
    pub async fn marked(&self) -> Result<Vec<FloatingIp>, Fault> {
        let filter = vec![("description", MARK.to_owned())];
        let found = self.neutron.walk(&filter).await?;
        // Whatever a server makes of the filter.
        let is_marked = |fip: &FloatingIp| fip.description.as_deref() == Some(MARK);
        Ok(found.into_values().filter(is_marked).collect())
    }

    /// Id of the configured external network; `None` if none is configured.
    ///
    /// # Errors
    /// [`ReadFault`]: there is none of that name or id, or several, or the cloud cannot say.
    pub async fn floating_network(&self) -> Result<Option<String>, ReadFault> {
        self.neutron.network_id().await
    }
}

impl Neutron {
    pub(crate) async fn quota(&self) -> Result<Option<Quota>, ReadFault> {
        let project = self.session.token(None).await?.project.id.clone();
        for path in [
            ["quotas", &project, "details"].as_slice(),
            ["quotas", &project].as_slice(),
        ] {
            let answer = self.ask(path, &Query::new()).await?;
            if matches!(answer.status, 403 | 404) {
                continue;
            }
            let QuotaOne { quota } = decode_read(&answer)?;
            let (limit, used) = match quota.floatingip {
                Amount::Detailed { limit, used } => (limit, Some(used)),
                Amount::Limit(limit) => (limit, None),
            };
            let limit = u64::try_from(limit).ok();
            return Ok(Some(Quota { limit, used }));
        }
        Ok(None)
    }

    /// How many floating IPs a listing of all has to show, where the cloud tells: not of a single
    /// network.
    pub(crate) async fn count(&self) -> Result<Option<u64>, ReadFault> {
        if self.network_id().await?.is_some() {
            return Ok(None);
        }
        Ok(self.quota().await?.and_then(|quota| quota.used))
    }
}
