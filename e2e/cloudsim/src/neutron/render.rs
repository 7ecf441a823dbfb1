//! Objects of the world as the API shows them.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::View;
use crate::ids::{dashed, mac};
use crate::setup::Role;
use crate::world::{Fip, Group, GroupRule, Network, Port, Router, Standard, Subnet};

fn seconds(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Adds what every object has.
fn with_standard(mut value: Value, project: &str, standard: &Standard) -> Value {
    value["project_id"] = json!(project);
    value["tenant_id"] = json!(project);
    value["description"] = json!(standard.description);
    value["tags"] = json!(standard.tags);
    value["revision_number"] = json!(standard.revision);
    value["created_at"] = json!(seconds(standard.created_at));
    value["updated_at"] = json!(seconds(standard.updated_at));
    value
}

/// A floating IP.
pub(crate) fn fip(fip: &Fip, view: &View<'_>) -> Value {
    let (world, setup) = (view.world, view.setup);
    let bound = fip.bound.as_ref();
    let port = bound.and_then(|bound| world.port(&bound.port));
    let router = bound.map(|bound| &bound.router);
    let value = json!({
        "id": fip.id,
        "floating_ip_address": fip.address,
        "floating_network_id": fip.network,
        "router_id": router.or(fip.forwarding_router.as_ref()),
        "port_id": bound.map(|bound| &bound.port),
        "fixed_ip_address": bound.map(|bound| bound.fixed),
        "status": fip.status.text(),
        "port_details": port.map(|port| json!({
            "name": port.name, "network_id": port.network, "mac_address": mac(&port.id),
            "admin_state_up": true, "status": "ACTIVE", "device_id": port.device_id,
            "device_owner": port.device_owner,
        })),
    });
    let mut value = with_standard(value, &fip.project, &fip.standard);
    if setup.has_plugins {
        let forwardings = fip.forwardings.iter().map(|forwarding| {
            json!({"id": forwarding.id, "protocol": forwarding.protocol,
                "external_port": forwarding.external_port,
                "internal_port": forwarding.internal_port,
                "internal_ip_address": forwarding.internal_address,
                "internal_port_id": forwarding.internal_port_id})
        });
        value["port_forwardings"] = forwardings.collect();
        value["qos_policy_id"] = Value::Null;
        value["dns_domain"] = json!("");
        value["dns_name"] = json!("");
    }
    if !setup.has_revisions
        && let Value::Object(keys) = &mut value
    {
        keys.remove("revision_number");
    }
    value
}

fn port(port: &Port, view: &View<'_>) -> Value {
    let fixed = |ip: &IpAddr| json!({"subnet_id": port.subnet, "ip_address": ip});
    let assigned = |ip: &IpAddr| {
        let host = format!("host-{}", ip.to_string().replace(['.', ':'], "-"));
        json!({"ip_address": ip, "hostname": host, "fqdn": format!("{host}.sim.example.")})
    };
    let value = json!({
        "id": port.id, "name": port.name, "network_id": port.network,
        "mac_address": mac(&port.id), "admin_state_up": true, "status": "ACTIVE",
        "device_id": port.device_id, "device_owner": port.device_owner,
        "fixed_ips": port.fixed_ips.iter().map(fixed).collect::<Vec<_>>(),
        "allowed_address_pairs": [], "extra_dhcp_opts": [], "security_groups": port.groups,
        "binding:vnic_type": "normal", "port_security_enabled": true,
        "qos_policy_id": null, "qos_network_policy_id": null, "dns_name": "",
        "dns_assignment": port.fixed_ips.iter().map(assigned).collect::<Vec<_>>(),
    });
    let mut value = with_standard(value, &port.project, &port.standard);
    if view.caller.role == Role::Admin {
        value["binding:host_id"] = json!("sim-host");
        value["binding:vif_type"] = json!("ovs");
        value["binding:vif_details"] = json!({"port_filter": true});
        value["binding:profile"] = json!({});
        value["resource_request"] = Value::Null;
    }
    value
}

/// The port that a floating IP itself has on the external network; only admins see it.
fn external_port(fip: &Fip, view: &View<'_>) -> Value {
    let subnets = view.world.subnets_of(&fip.network);
    let subnet = subnets.iter().find(|subnet| subnet.contains(fip.address));
    let own = Port {
        id: dashed(&format!("external port of {}", fip.id)),
        name: String::new(),
        project: String::new(),
        network: fip.network.clone(),
        subnet: subnet.map(|subnet| subnet.id.clone()).unwrap_or_default(),
        fixed_ips: vec![fip.address],
        device_id: fip.id.clone(),
        device_owner: "network:floatingip".to_owned(),
        groups: Vec::new(),
        ours: false,
        standard: Standard::new(fip.standard.created_at),
    };
    let mut value = port(&own, view);
    value["status"] = json!("N/A");
    value["binding:host_id"] = json!("");
    value["binding:vif_type"] = json!("unbound");
    value["binding:vif_details"] = json!({});
    value
}

fn network(network: &Network, view: &View<'_>) -> Value {
    let subnets = view.world.subnets_of(&network.id);
    let subnets: Vec<&String> = subnets.iter().map(|subnet| &subnet.id).collect();
    let value = json!({
        "id": network.id, "name": network.name, "status": "ACTIVE", "admin_state_up": true,
        "shared": false, "router:external": network.is_external, "mtu": 1500,
        "subnets": subnets, "availability_zone_hints": [], "availability_zones": [],
        "ipv4_address_scope": null, "ipv6_address_scope": null, "port_security_enabled": true,
        "qos_policy_id": null, "dns_domain": "", "vlan_transparent": false, "qinq": false,
    });
    let mut value = with_standard(value, &network.project, &network.standard);
    if network.is_external {
        value["is_default"] = json!(false);
    }
    if view.caller.role == Role::Admin {
        let kind = if network.is_external { "flat" } else { "vlan" };
        value["provider:network_type"] = json!(kind);
        value["provider:physical_network"] = json!("physnet1");
        value["provider:segmentation_id"] = if network.is_external {
            Value::Null
        } else {
            json!(100)
        };
    }
    value
}

fn subnet(subnet: &Subnet) -> Value {
    let (first, last) = subnet.pool();
    let value = json!({
        "id": subnet.id, "name": subnet.name, "network_id": subnet.network, "ip_version": 4,
        "cidr": format!("{}/{}", subnet.base, subnet.bits), "gateway_ip": subnet.gateway,
        "allocation_pools": [{"start": first, "end": last}], "enable_dhcp": subnet.has_dhcp,
        "dns_nameservers": [], "host_routes": [], "service_types": [], "subnetpool_id": null,
        "ipv6_address_mode": null, "ipv6_ra_mode": null, "dns_publish_fixed_ip": false,
        "segment_id": null, "router:external": false,
    });
    with_standard(value, &subnet.project, &subnet.standard)
}

fn router(router: &Router) -> Value {
    let address =
        json!([{"subnet_id": router.gateway_subnet, "ip_address": router.gateway_address}]);
    let value = json!({
        "id": router.id, "name": router.name, "status": "ACTIVE", "admin_state_up": true,
        "external_gateway_info": {"network_id": router.gateway_network,
            "external_fixed_ips": address, "enable_snat": true},
        "routes": [], "flavor_id": null, "availability_zone_hints": [], "availability_zones": [],
    });
    with_standard(value, &router.project, &router.standard)
}

fn rule(rule: &GroupRule, group: &Group) -> Value {
    let (least, most) = rule.ports.map_or((None, None), |(a, b)| (Some(a), Some(b)));
    json!({
        "id": rule.id, "security_group_id": group.id, "direction": rule.direction,
        "ethertype": rule.ethertype, "protocol": rule.protocol, "port_range_min": least,
        "port_range_max": most, "remote_ip_prefix": rule.remote_prefix,
        "remote_address_group_id": null, "normalized_cidr": rule.remote_prefix,
        "remote_group_id": rule.from_group.then_some(&group.id), "description": "",
        "belongs_to_default_sg": true, "project_id": group.project, "tenant_id": group.project,
        "revision_number": 0, "created_at": seconds(group.standard.created_at),
        "updated_at": seconds(group.standard.updated_at), "standard_attr_id": 1,
    })
}

fn group(group: &Group) -> Value {
    let rules: Vec<Value> = group.rules.iter().map(|one| rule(one, group)).collect();
    let value = json!({"id": group.id, "name": group.name, "stateful": true, "shared": false,
        "security_group_rules": rules});
    with_standard(value, &group.project, &group.standard)
}

/// A collection besides the floating IPs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shelf {
    pub(super) collection: &'static str,
    /// The key of a single one.
    pub(super) one: &'static str,
    pub(super) filters: &'static [&'static str],
    /// The type of the error when one is not there.
    pub(super) missing: &'static str,
    text: (&'static str, &'static str),
    pub(super) is_spaced: bool,
}

const SHELVES: [Shelf; 6] = [
    Shelf {
        collection: "ports",
        one: "port",
        filters: &[
            "id",
            "name",
            "network_id",
            "status",
            "device_id",
            "device_owner",
            "mac_address",
            "fixed_ips",
            "admin_state_up",
            "project_id",
            "tenant_id",
            "description",
            "binding:host_id",
            "security_groups",
        ],
        missing: "PortNotFound",
        text: ("Port ", " could not be found."),
        is_spaced: false,
    },
    Shelf {
        collection: "networks",
        one: "network",
        filters: &[
            "id",
            "name",
            "router:external",
            "shared",
            "status",
            "admin_state_up",
            "project_id",
            "tenant_id",
            "mtu",
            "description",
            "is_default",
        ],
        missing: "NetworkNotFound",
        text: ("Network ", " could not be found."),
        is_spaced: false,
    },
    Shelf {
        collection: "subnets",
        one: "subnet",
        filters: &[
            "id",
            "name",
            "network_id",
            "cidr",
            "ip_version",
            "gateway_ip",
            "enable_dhcp",
            "project_id",
            "tenant_id",
            "description",
            "subnetpool_id",
        ],
        missing: "SubnetNotFound",
        text: ("Subnet ", " could not be found."),
        is_spaced: false,
    },
    Shelf {
        collection: "routers",
        one: "router",
        filters: &[
            "id",
            "name",
            "status",
            "admin_state_up",
            "project_id",
            "tenant_id",
            "description",
        ],
        missing: "RouterNotFound",
        text: ("Router ", " could not be found"),
        is_spaced: true,
    },
    Shelf {
        collection: "security-groups",
        one: "security_group",
        filters: &[
            "id",
            "name",
            "project_id",
            "tenant_id",
            "description",
            "stateful",
            "shared",
        ],
        missing: "SecurityGroupNotFound",
        text: ("Security group ", " does not exist"),
        is_spaced: true,
    },
    Shelf {
        collection: "security-group-rules",
        one: "security_group_rule",
        filters: &[
            "id",
            "security_group_id",
            "direction",
            "ethertype",
            "protocol",
            "project_id",
            "tenant_id",
            "remote_group_id",
            "remote_ip_prefix",
            "port_range_min",
            "port_range_max",
            "description",
        ],
        missing: "SecurityGroupRuleNotFound",
        text: ("Security group rule ", " does not exist"),
        is_spaced: true,
    },
];

impl Shelf {
    /// By the name in the path.
    pub(super) fn named(name: &str) -> Option<Self> {
        SHELVES.into_iter().find(|shelf| shelf.collection == name)
    }

    /// Neutron's words for one that is not there.
    pub(super) fn missing_text(&self, id: &str) -> String {
        format!("{}{id}{}", self.text.0, self.text.1)
    }

    /// What the caller sees of it.
    pub(super) fn rows(&self, view: &View<'_>) -> Vec<Value> {
        let world = view.world;
        match self.one {
            "port" => {
                let own = world.ports().filter(|one| view.sees(&one.project));
                let mut rows: Vec<Value> = own.map(|one| port(one, view)).collect();
                if view.caller.role == Role::Admin {
                    rows.extend(world.fips().map(|fip| external_port(fip, view)));
                }
                rows
            }
            "network" => {
                let all = world.networks.values();
                let seen = all.filter(|one| one.is_external || view.sees(&one.project));
                seen.map(|one| network(one, view)).collect()
            }
            "subnet" => {
                let all = world.subnets.values();
                all.filter(|one| view.sees(&one.project))
                    .map(subnet)
                    .collect()
            }
            "router" => {
                let all = world.routers.values();
                all.filter(|one| view.sees(&one.project))
                    .map(router)
                    .collect()
            }
            "security_group" => {
                let all = world.groups.values();
                all.filter(|one| view.sees(&one.project))
                    .map(group)
                    .collect()
            }
            _ => {
                let seen = world.groups.values().filter(|one| view.sees(&one.project));
                seen.flat_map(|group| group.rules.iter().map(move |one| rule(one, group)))
                    .collect()
            }
        }
    }
}
