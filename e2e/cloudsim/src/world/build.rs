//! The world that a set-up describes: a project behind its router, others behind theirs.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use jiff::Timestamp;

use super::{
    Ask, Fip, Group, GroupRule, Kind, Network, NewForwarding, Port, ROUTER_INTERFACE, Router,
    Standard, Status, Subnet, World,
};
use crate::ids::{dashed, fip_id, project_id};
use crate::setup::{FipSetup, PortSetup, Setup};

/// The customers' port that forwarded addresses lead to.
const FORWARDED_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 250, 1);

/// A project's private network.
struct Inside<'a> {
    project: &'a str,
    network: &'a str,
    subnet: &'a str,
    group: &'a str,
}

impl World {
    /// # Errors
    /// What of the set-up contradicts itself.
    pub(crate) fn new(setup: &Setup, now: Timestamp) -> anyhow::Result<Self> {
        let mut world = Self::default();
        world.add_external(setup, now);
        world.add_project(&setup.project, "private", &setup.ports, setup, now)?;
        world.add_isolated(setup, now);
        let project = project_id(&setup.project);
        world.add_fips(&setup.fips, &project, setup, now)?;
        if let Some(most) = setup.fip_quota {
            world.fip_quotas.insert(project, most);
        }
        for other in &setup.others {
            let network = format!("{}-net", other.name);
            world.add_project(&other.name, &network, &other.ports, setup, now)?;
            let project = project_id(&other.name);
            world.add_fips(&other.fips, &project, setup, now)?;
            if let Some(most) = other.fip_quota {
                world.fip_quotas.insert(project, most);
            }
        }
        Ok(world)
    }

    fn add_network(
        &mut self,
        id: &str,
        name: &str,
        project: &str,
        is_external: bool,
        now: Timestamp,
    ) {
        let network = Network {
            id: id.to_owned(),
            name: name.to_owned(),
            project: project.to_owned(),
            is_external,
            standard: Standard::new(now),
        };
        self.networks.insert(network.id.clone(), network);
    }

    fn add_subnet(
        &mut self,
        name: &str,
        network: &str,
        (base, bits): (Ipv4Addr, u8),
        now: Timestamp,
    ) {
        let Some(Network {
            project,
            is_external,
            ..
        }) = self.networks.get(network)
        else {
            return;
        };
        let last = base.to_bits() + ((1_u32 << (32 - u32::from(bits))) - 1);
        let gateway = if *is_external {
            base.to_bits() + 1
        } else {
            // Validators' ports may have the first addresses.
            last - 1
        };
        let subnet = Subnet {
            id: dashed(name),
            name: name.to_owned(),
            project: project.clone(),
            network: network.to_owned(),
            base,
            bits,
            gateway: Ipv4Addr::from_bits(gateway),
            has_dhcp: !*is_external,
            standard: Standard::new(now),
        };
        self.subnets.insert(subnet.id.clone(), subnet);
    }

    fn add_external(&mut self, setup: &Setup, now: Timestamp) {
        let admin = project_id("admin");
        self.add_network(&setup.network_id, &setup.network_name, &admin, true, now);
        let others = setup.others.iter().flat_map(|other| &other.fips);
        let addresses = setup.fips.iter().chain(others);
        let bases: BTreeSet<Ipv4Addr> = addresses
            .filter_map(|fip| match fip.address {
                IpAddr::V4(ip) => Some(Ipv4Addr::from_bits(ip.to_bits() & !0xFF)),
                IpAddr::V6(_) => None,
            })
            .collect();
        for (index, base) in bases.into_iter().enumerate() {
            let name = format!("{}-{index}", setup.network_name);
            self.add_subnet(&name, &setup.network_id, (base, 24), now);
        }
        for more in &setup.external {
            self.add_network(&more.id, &more.name, &admin, true, now);
            let name = format!("{}-0", more.name);
            self.add_subnet(&name, &more.id, (more.network, more.bits), now);
        }
    }

    /// Network, subnet, router, group and ports of one project.
    fn add_project(
        &mut self,
        name: &str,
        network_name: &str,
        ports: &[PortSetup],
        setup: &Setup,
        now: Timestamp,
    ) -> anyhow::Result<()> {
        let project = project_id(name);
        let network = dashed(network_name);
        self.add_network(&network, network_name, &project, false, now);
        let base = match ports.first().map(|port| port.fixed_ip) {
            Some(IpAddr::V4(ip)) => Ipv4Addr::from_bits(ip.to_bits() & !0xFFFF),
            _ => Ipv4Addr::new(10, 77, 0, 0),
        };
        let subnet_name = format!("{network_name}-subnet");
        self.add_subnet(&subnet_name, &network, (base, 16), now);
        let group = self.add_group(&project, now);
        let subnet = dashed(&subnet_name);
        let inside = Inside {
            project: &project,
            network: &network,
            subnet: &subnet,
            group: &group,
        };
        self.add_router(&format!("{name}-router"), &inside, setup, now)?;
        for (index, port) in ports.iter().enumerate() {
            let mut fixed_ips = vec![port.fixed_ip];
            if setup.two_address_ports.contains(&port.id) {
                let last = u8::try_from(index % 250)?;
                fixed_ips.push(IpAddr::from([10, 78, 0, last + 1]));
            }
            self.add_port(port, fixed_ips, &inside, now);
        }
        Ok(())
    }

    /// The network of ports that no router leads to.
    fn add_isolated(&mut self, setup: &Setup, now: Timestamp) {
        if setup.unrouted_ports.is_empty() {
            return;
        }
        let (project, network) = (project_id(&setup.project), dashed("isolated"));
        self.add_network(&network, "isolated", &project, false, now);
        let base = Ipv4Addr::new(10, 79, 0, 0);
        self.add_subnet("isolated-subnet", &network, (base, 16), now);
        for id in &setup.unrouted_ports {
            if let Some(port) = self.ports.get_mut(id) {
                port.network.clone_from(&network);
                port.subnet = dashed("isolated-subnet");
            }
        }
    }

    fn add_router(
        &mut self,
        name: &str,
        inside: &Inside<'_>,
        setup: &Setup,
        now: Timestamp,
    ) -> anyhow::Result<()> {
        let outside = &setup.network_id;
        // A network without a subnet has no floating IPs either.
        let free = self.last_free_address(outside);
        let (gateway_address, gateway_subnet) =
            free.unwrap_or((IpAddr::V4(Ipv4Addr::UNSPECIFIED), String::new()));
        let router = Router {
            id: dashed(name),
            name: name.to_owned(),
            project: inside.project.to_owned(),
            gateway_network: outside.clone(),
            gateway_subnet,
            gateway_address,
            standard: Standard::new(now),
        };
        let subnet = self.subnets.get(inside.subnet);
        let gateway = subnet.map(|subnet| IpAddr::V4(subnet.gateway));
        let interface = PortSetup {
            id: dashed(&format!("{name}-interface")),
            fixed_ip: gateway.ok_or_else(|| anyhow::anyhow!("{name} has no subnet inside"))?,
            ours: false,
        };
        self.add_port(&interface, vec![interface.fixed_ip], inside, now);
        if let Some(port) = self.ports.get_mut(&interface.id) {
            port.name = String::new();
            ROUTER_INTERFACE.clone_into(&mut port.device_owner);
            port.device_id.clone_from(&router.id);
            port.groups.clear();
        }
        self.routers.insert(router.id.clone(), router);
        Ok(())
    }

    fn add_port(&mut self, port: &PortSetup, fixed: Vec<IpAddr>, on: &Inside<'_>, now: Timestamp) {
        let is_uuid = crate::ids::is_uuid(&port.id);
        let kind = if port.ours { "validator" } else { "app" };
        let made = Port {
            id: port.id.clone(),
            name: if is_uuid {
                format!("{kind}-port-{}", port.fixed_ip)
            } else {
                port.id.clone()
            },
            project: on.project.to_owned(),
            network: on.network.to_owned(),
            subnet: on.subnet.to_owned(),
            fixed_ips: fixed,
            device_id: dashed(&format!("instance {}", port.id)),
            device_owner: "compute:nova".to_owned(),
            groups: vec![on.group.to_owned()],
            ours: port.ours,
            standard: Standard::new(now),
        };
        self.ports.insert(port.id.clone(), made);
    }

    /// The group that every project has: everything out, everything of the group itself in.
    fn add_group(&mut self, project: &str, now: Timestamp) -> String {
        let id = dashed(&format!("group {project}"));
        let rule = |index: usize, direction: &str, ethertype: &str| GroupRule {
            id: dashed(&format!("rule {index} of {project}")),
            direction: direction.to_owned(),
            ethertype: ethertype.to_owned(),
            protocol: None,
            ports: None,
            remote_prefix: None,
            from_group: direction == "ingress",
        };
        let rules = vec![
            rule(0, "egress", "IPv4"),
            rule(1, "egress", "IPv6"),
            rule(2, "ingress", "IPv4"),
            rule(3, "ingress", "IPv6"),
        ];
        let mut standard = Standard::new(now);
        "Default security group".clone_into(&mut standard.description);
        let group = Group {
            id: id.clone(),
            name: "default".to_owned(),
            project: project.to_owned(),
            rules,
            standard,
        };
        self.groups.insert(id.clone(), group);
        id
    }

    fn add_fips(
        &mut self,
        fips: &[FipSetup],
        project: &str,
        setup: &Setup,
        now: Timestamp,
    ) -> anyhow::Result<()> {
        for fip in fips {
            let made = Fip {
                id: fip_id(fip.address),
                address: fip.address,
                project: project.to_owned(),
                network: setup.network_id.clone(),
                bound: None,
                forwardings: Vec::new(),
                forwarding_router: None,
                last_router: None,
                status: Status::Down,
                epoch: 0,
                standard: Standard::new(now),
            };
            let id = made.id.clone();
            self.fips.insert(id.clone(), made);
            let cannot = |why| anyhow::anyhow!("{} cannot be bound: {why:?}", fip.address);
            if let Some(port) = fip.port.clone() {
                let ask = Ask {
                    port: Some(port),
                    ..Ask::default()
                };
                self.bind(&id, &ask, now).map_err(cannot)?;
                self.report_status(&id, setup.status_error.contains(&fip.address), now);
            }
            if fip.forwarded {
                self.forward_from_start(&id, setup, now).map_err(cannot)?;
            }
        }
        Ok(())
    }

    fn forward_from_start(
        &mut self,
        id: &str,
        setup: &Setup,
        now: Timestamp,
    ) -> Result<(), super::Refused> {
        let port_id = dashed("forwarded");
        let project = project_id(&setup.project);
        if !self.ports.contains_key(&port_id) {
            let port = PortSetup {
                id: port_id.clone(),
                fixed_ip: IpAddr::V4(FORWARDED_ADDRESS),
                ours: false,
            };
            let inside = Inside {
                project: &project,
                network: &dashed("private"),
                subnet: &dashed("private-subnet"),
                group: &dashed(&format!("group {project}")),
            };
            self.add_port(&port, vec![port.fixed_ip], &inside, now);
            self.touch(Kind::Port, &port.id);
        }
        let new = NewForwarding {
            protocol: "tcp".to_owned(),
            internal_port_id: port_id,
            internal_address: IpAddr::V4(FORWARDED_ADDRESS),
            internal_port: 22,
            external_port: 2222,
            description: String::new(),
        };
        self.forward(id, &new, now)?;
        if let Some(fip) = self.fips.get_mut(id) {
            fip.standard.revision = 0;
        }
        Ok(())
    }
}
