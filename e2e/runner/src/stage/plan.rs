//! Owns the addresses of the stage: who has which, on every network. Knows no processes.

use std::net::Ipv4Addr;

/// The port on which probers look for SSH.
const SSH: u16 = 22;

/// Where a process of the stage runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// control-api and the cloud's API.
    Mgmt,
    /// The cloud's router.
    Edge,
    /// A validator VM, from 1.
    Vm(u8),
    /// An external site, from 1.
    Site(u8),
    /// Targets and the IP-echo service.
    Internet,
}

impl Place {
    /// The name of its network namespace, of its log files and of its devices.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Mgmt => "mgmt".to_owned(),
            Self::Edge => "edge".to_owned(),
            Self::Vm(n) => format!("vm-{n}"),
            Self::Site(n) => format!("site-{n}"),
            Self::Internet => "internet".to_owned(),
        }
    }
}

/// What a scenario has to know of the stage that it plays on.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Number of validator VMs.
    pub(crate) vms: u8,
    /// Number of external sites.
    pub(crate) sites: u8,
    /// Where control-api and the cloud's API listen.
    pub(crate) mgmt: Ipv4Addr,
    /// control-api's port there.
    pub(crate) control_port: u16,
    /// Network of the VMs' fixed addresses; the host part is 10 + the VM's number.
    pub(crate) fixed_net: [u8; 3],
    /// Networks of the floating addresses, each with the host parts 1 to 254.
    pub(crate) floating_nets: Vec<[u8; 3]>,
    /// Source addresses of the sites where they must be bound explicitly (host part 100 + n).
    pub(crate) bind_net: Option<[u8; 3]>,
    /// Ports that every VM serves: SSH, HTTP, TLS, HTTP.
    pub(crate) ports: [u16; 4],
    /// Whether an echo request to a floating address tells anything here.
    pub(crate) icmp: bool,
    /// URLs that egress checks fetch.
    pub(crate) web_targets: Vec<String>,
    /// URLs of the IP-echo service.
    pub(crate) echo_urls: Vec<String>,
}

impl Plan {
    /// The stage of namespaces.
    pub(crate) fn namespaces(vms: u8, sites: u8) -> Self {
        Self {
            vms,
            sites,
            mgmt: Ipv4Addr::new(10, 0, 0, 1),
            control_port: 8080,
            fixed_net: [10, 1, 0],
            floating_nets: vec![[203, 0, 113], [198, 51, 100]],
            bind_net: None,
            ports: [SSH, 80, 443, 8080],
            icmp: true,
            web_targets: vec![
                "https://www.stage.test".to_owned(),
                "https://mirror.stage.test".to_owned(),
            ],
            echo_urls: vec![
                "https://echo.stage.test/ip".to_owned(),
                "http://echo.stage.test/ip".to_owned(),
            ],
        }
    }

    /// The private address of a VM, counted from 1.
    pub(crate) fn fixed(&self, vm: u8) -> Ipv4Addr {
        let [a, b, c] = self.fixed_net;
        Ipv4Addr::new(a, b, c, vm.saturating_add(10))
    }

    /// The `n`-th floating address, counted from 0: the networks take turns after 200 each.
    pub(crate) fn floating(&self, n: u8) -> Ipv4Addr {
        let [a, b, c] = self.floating_nets[usize::from(n / 200) % self.floating_nets.len()];
        Ipv4Addr::new(a, b, c, n % 200 + 10)
    }

    /// The source address that a prober has to bind, where the kernel's choice will not do.
    pub(crate) fn site_bind(&self, site: u8) -> Option<Ipv4Addr> {
        self.bind_net
            .map(|[a, b, c]| Ipv4Addr::new(a, b, c, site.saturating_add(100)))
    }

    /// The source address that a validator has to bind, where the kernel's choice will not do.
    pub(crate) fn vm_bind(&self, vm: u8) -> Option<Ipv4Addr> {
        self.bind_net.map(|_| self.fixed(vm))
    }

    /// What every scenario goes without on this ground, in a sentence; empty when nothing.
    pub(crate) fn leaves_out(&self) -> String {
        let mut parts = Vec::new();
        if !self.icmp {
            parts.push("no icmp, which the kernel answers for every loopback address".to_owned());
        }
        if self.ports[0] != SSH {
            parts.push(format!(
                "no ssh and no tls-443, since ports 22 and 443 are not to be had here: {:?} stand \
                 in for the well-known ones",
                self.ports
            ));
        }
        parts.join("; ")
    }

    /// All floating networks in the notation of `ip` and `tcpdump`.
    pub(crate) fn floating_cidrs(&self) -> Vec<String> {
        let cidr = |[a, b, c]: &[u8; 3]| format!("{a}.{b}.{c}.0/24");
        self.floating_nets.iter().map(cidr).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floating_addresses_come_from_both_networks() {
        let plan = Plan::namespaces(3, 2);
        assert_eq!(plan.floating(0), Ipv4Addr::new(203, 0, 113, 10));
        assert_eq!(plan.floating(199), Ipv4Addr::new(203, 0, 113, 209));
        assert_eq!(plan.floating(200), Ipv4Addr::new(198, 51, 100, 10));
    }

    #[test]
    fn nobody_binds_a_source_where_the_kernel_knows_better() {
        let plan = Plan::namespaces(3, 2);
        assert_eq!((plan.site_bind(1), plan.vm_bind(1)), (None, None));
        assert_eq!(plan.leaves_out(), "");
    }
}
