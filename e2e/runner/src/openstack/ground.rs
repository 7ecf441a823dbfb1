//! Owns what a project needs before anything can be played in it: an external network, one behind
//! a router, ports, floating IPs. Looks before it makes, since a lab may have been used before.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::lab::Facts;
use super::rest::{Rest, text};

/// A project's own ground. Its user and its project have one name.
#[derive(Debug)]
pub(crate) struct Ground {
    /// The project's user.
    pub(crate) rest: Rest,
    /// An administrator.
    pub(crate) admin: Rest,
    project: String,
    /// Its external network: id.
    pub(crate) external: String,
    inside: String,
    subnet: String,
}

impl Ground {
    /// Finds or makes the networks of project `name`: `outside` are the external subnets, `inside`
    /// is where its ports are, behind a router.
    ///
    /// # Errors
    ///
    /// When Neutron refuses any of it.
    pub(crate) async fn make(
        facts: &Facts,
        name: &str,
        outside: &[String],
        inside: &str,
    ) -> Result<Self> {
        let (admin, rest) =
            tokio::try_join!(Rest::login(facts, "admin"), Rest::login(facts, name))?;
        let project = facts.projects.get(name);
        let project = project.with_context(|| format!("the lab has no project {name}"))?;
        let external_name = format!("{name}-external");
        let attributes = json!({"name": external_name, "router:external": true,
            "provider:network_type": "flat", "provider:physical_network": external_name});
        let external = one(&admin, "network", &external_name, &attributes).await?;
        for (n, cidr) in outside.iter().enumerate() {
            let subnet = subnet(&format!("{external_name}-{n}"), &external, cidr);
            one(&admin, "subnet", text(&subnet, "name"), &subnet).await?;
        }
        let inner = one(&rest, "network", name, &json!({ "name": name })).await?;
        let attributes = subnet(name, &inner, inside);
        let subnet = one(&rest, "subnet", name, &attributes).await?;
        let gateway = json!({"network_id": external});
        let attributes = json!({"name": name, "external_gateway_info": gateway});
        let router = one(&rest, "router", name, &attributes).await?;
        let query = format!("device_id={router}&network_id={inner}");
        if rest.all("ports", &query).await?.is_empty() {
            let path = format!("routers/{router}/add_router_interface");
            let body = json!({ "subnet_id": subnet });
            let ask = super::rest::Ask::with(reqwest::Method::PUT, path, &body);
            rest.must(ask).await?;
        }
        Ok(Self {
            rest,
            admin,
            project: project.clone(),
            external,
            inside: inner,
            subnet,
        })
    }

    /// The ids of the ports of these names, with these fixed addresses; those that are not there
    /// are made.
    ///
    /// # Errors
    ///
    /// When Neutron refuses.
    pub(crate) async fn ports(
        &self,
        wanted: &[(String, Ipv4Addr)],
    ) -> Result<BTreeMap<String, String>> {
        let query = format!("network_id={}", self.inside);
        let there = self.rest.all("ports", &query).await?;
        let mut ports = BTreeMap::new();
        for (name, fixed) in wanted {
            let found = there.iter().find(|port| text(port, "name") == name);
            let id = match found {
                Some(port) => text(port, "id").to_owned(),
                None => self.make_port(name, &[*fixed]).await?,
            };
            ports.insert(name.clone(), id);
        }
        Ok(ports)
    }

    /// Makes a port with these fixed addresses and returns its id.
    ///
    /// # Errors
    ///
    /// When Neutron refuses.
    pub(crate) async fn make_port(&self, name: &str, fixed: &[Ipv4Addr]) -> Result<String> {
        let at = |ip| json!({"subnet_id": self.subnet, "ip_address": ip});
        let fixed: Vec<Value> = fixed.iter().map(at).collect();
        let attributes = json!({"name": name, "network_id": self.inside, "fixed_ips": fixed,
            "device_owner": "compute:nova", "device_id": name});
        let port = self.rest.make("port", &attributes).await?;
        Ok(text(&port, "id").to_owned())
    }

    /// The id of a port with two fixed addresses.
    ///
    /// # Errors
    ///
    /// When Neutron refuses.
    pub(crate) async fn port_with_two(&self, name: &str, fixed: [Ipv4Addr; 2]) -> Result<String> {
        let there = self.rest.all("ports", &format!("name={name}")).await?;
        match there.first() {
            Some(port) => Ok(text(port, "id").to_owned()),
            None => self.make_port(name, &fixed).await,
        }
    }

    /// The id of a port on a network of its own, without a router.
    ///
    /// # Errors
    ///
    /// When Neutron refuses.
    pub(crate) async fn port_without_way(&self, name: &str, cidr: &str) -> Result<String> {
        let network = one(&self.rest, "network", name, &json!({ "name": name })).await?;
        one(&self.rest, "subnet", name, &subnet(name, &network, cidr)).await?;
        let attributes = json!({"name": name, "network_id": network,
            "device_owner": "compute:nova", "device_id": name});
        one(&self.rest, "port", name, &attributes).await
    }

    /// The floating IPs of these addresses, all free, and no other: id by address. Those that are
    /// not there are made, those of other addresses deleted.
    ///
    /// # Errors
    ///
    /// When Neutron refuses.
    pub(crate) async fn floating_ips(
        &self,
        addresses: &[Ipv4Addr],
    ) -> Result<BTreeMap<Ipv4Addr, String>> {
        let mut there = BTreeMap::new();
        for row in self.rows().await? {
            let address: Ipv4Addr = text(&row, "floating_ip_address").parse()?;
            let id = text(&row, "id").to_owned();
            if !addresses.contains(&address) {
                self.rest.delete(format!("floatingips/{id}")).await?;
                continue;
            }
            if row["port_id"].is_string() {
                self.rest.bind(&id, None).await?;
            }
            there.insert(address, id);
        }
        for address in addresses {
            if !there.contains_key(address) {
                there.insert(*address, self.make_floating_ip(*address).await?);
            }
        }
        Ok(there)
    }

    /// Makes a floating IP with a certain address, as only an administrator may.
    async fn make_floating_ip(&self, address: Ipv4Addr) -> Result<String> {
        let attributes = json!({"floating_network_id": self.external,
            "floating_ip_address": address, "project_id": self.project});
        let fip = self.admin.make("floatingip", &attributes).await?;
        Ok(text(&fip, "id").to_owned())
    }

    /// All floating IPs of the project, as Neutron shows them.
    ///
    /// # Errors
    ///
    /// When Neutron refuses.
    pub(crate) async fn rows(&self) -> Result<Vec<Value>> {
        self.rest
            .all("floatingips", "sort_key=id&sort_dir=asc")
            .await
    }
}

fn subnet(name: &str, network: &str, cidr: &str) -> Value {
    json!({"name": name, "network_id": network, "ip_version": 4, "cidr": cidr,
        "enable_dhcp": false})
}

/// The id of the resource of that name, made if there is none.
async fn one(rest: &Rest, kind: &str, name: &str, attributes: &Value) -> Result<String> {
    let found = rest
        .all(&format!("{kind}s"), &format!("name={name}"))
        .await?;
    let row = match found.into_iter().next() {
        Some(row) => row,
        None => rest.make(kind, attributes).await?,
    };
    Ok(text(&row, "id").to_owned())
}
