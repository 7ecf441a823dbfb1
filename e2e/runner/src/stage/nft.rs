//! Owns the router's NAT: who has which floating address, and what is broken on purpose.
//!
//! An association is one element in (destination) and one out (source). Taking them away does
//! not cut what flows, so the entries of connection tracking go too, as a real router does.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};

use super::fault::{Fault, Ways};
use super::netns::{EDGE_WAN, Netns, WEB};
use super::plan::{Place, Plan};
use super::tool;

/// The router of the stage.
#[derive(Debug)]
pub(crate) struct Router {
    netns: Netns,
    /// Which ways are open, by floating address: nft refuses to delete what is not there.
    open: Mutex<HashMap<Ipv4Addr, Ways>>,
}

impl Router {
    /// Loads the empty rules.
    ///
    /// # Errors
    ///
    /// When nft refuses them.
    pub(crate) async fn build(netns: Netns, plan: &Plan) -> Result<Self> {
        let [a, b, c] = plan.fixed_net;
        let rules = format!(
            "table ip stage_nat {{
                map fip_in {{ type ipv4_addr : ipv4_addr; }}
                map fip_out {{ type ipv4_addr : ipv4_addr; }}
                chain c_pre {{
                    type nat hook prerouting priority dstnat;
                    dnat to ip daddr map @fip_in;
                }}
                chain c_post {{
                    type nat hook postrouting priority srcnat;
                    oifname \"wan0\" snat to ip saddr map @fip_out;
                    oifname \"wan0\" ip saddr {a}.{b}.{c}.0/24 snat to {EDGE_WAN};
                }}
            }}
            table ip stage_faults {{
                chain c_in {{ type nat hook prerouting priority dstnat - 1; }}
                chain c_through {{ type filter hook forward priority filter; }}
            }}"
        );
        let router = Self {
            netns,
            open: Mutex::default(),
        };
        router.nft(&rules).await?;
        Ok(router)
    }

    async fn nft(&self, rules: &str) -> Result<()> {
        let mut nft = self.netns.tool(Place::Edge, "nft");
        tool::feed(nft.args(["-f", "-"]), rules).await?;
        Ok(())
    }

    /// Lets packets flow between the floating and the fixed address.
    ///
    /// # Errors
    ///
    /// When nft refuses, as it does for an address that already has an association.
    pub(crate) async fn associate(
        &self,
        floating: Ipv4Addr,
        fixed: Ipv4Addr,
        ways: Ways,
    ) -> Result<()> {
        self.lock().insert(floating, ways);
        let mut rules = String::new();
        if ways != Ways::Egress {
            writeln!(
                rules,
                "add element ip stage_nat fip_in {{ {floating} : {fixed} }}"
            )?;
        }
        if ways != Ways::Inbound {
            writeln!(
                rules,
                "add element ip stage_nat fip_out {{ {fixed} : {floating} }}"
            )?;
        }
        self.nft(&rules).await
    }

    /// Stops the flow, of open connections too.
    ///
    /// # Errors
    ///
    /// When nft or conntrack refuses.
    pub(crate) async fn disassociate(&self, floating: Ipv4Addr, fixed: Ipv4Addr) -> Result<()> {
        let ways = self.lock().remove(&floating);
        let Some(ways) = ways else {
            bail!("{floating} is to be disassociated from {fixed} and was not associated");
        };
        let mut rules = String::new();
        if ways != Ways::Egress {
            writeln!(rules, "delete element ip stage_nat fip_in {{ {floating} }}")?;
        }
        if ways != Ways::Inbound {
            writeln!(rules, "delete element ip stage_nat fip_out {{ {fixed} }}")?;
        }
        self.nft(&rules).await?;
        // Inbound flows have the floating address as their first destination, outgoing ones as
        // the destination of their answers.
        let floating = floating.to_string();
        let fixed = fixed.to_string();
        tokio::try_join!(
            self.forget("-d", &floating),
            self.forget("-q", &floating),
            self.forget("-r", &fixed),
        )?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Ipv4Addr, Ways>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn forget(&self, side: &str, address: &str) -> Result<()> {
        let mut conntrack = self.netns.tool(Place::Edge, "conntrack");
        conntrack.args(["-D", side, address]);
        let output = tool::outcome(&mut conntrack, "").await?;
        if !tool::conntrack_worked(&output) {
            bail!("{}", tool::complaint(&conntrack, &output));
        }
        Ok(())
    }

    /// Breaks something until [`Router::mend`].
    ///
    /// # Errors
    ///
    /// When nft refuses the rule.
    pub(crate) async fn break_with(&self, fault: &Fault) -> Result<()> {
        let mut rules = String::new();
        let chain = match fault {
            Fault::Conflict { .. } => "c_in",
            _ => "c_through",
        };
        for rule in rules_of(fault) {
            writeln!(rules, "add rule ip stage_faults {chain} {rule}")?;
        }
        self.nft(&rules).await
    }

    /// Takes all faults away.
    ///
    /// # Errors
    ///
    /// When nft refuses.
    pub(crate) async fn mend(&self) -> Result<()> {
        self.nft(
            "flush chain ip stage_faults c_in
             flush chain ip stage_faults c_through",
        )
        .await
    }

    /// Takes everything away: associations, faults, remembered flows.
    ///
    /// # Errors
    ///
    /// When nft or conntrack refuses.
    pub(crate) async fn reset(&self) -> Result<()> {
        self.lock().clear();
        self.nft(
            "flush map ip stage_nat fip_in
             flush map ip stage_nat fip_out
             flush chain ip stage_faults c_in
             flush chain ip stage_faults c_through",
        )
        .await?;
        let mut conntrack = self.netns.tool(Place::Edge, "conntrack");
        tool::feed(conntrack.arg("-F"), "").await?;
        Ok(())
    }

    /// The floating addresses that lead somewhere now, as nft prints them.
    ///
    /// # Errors
    ///
    /// When nft cannot be asked.
    pub(crate) async fn associated(&self) -> Result<String> {
        let mut nft = self.netns.tool(Place::Edge, "nft");
        nft.args(["list", "map", "ip", "stage_nat", "fip_in"]);
        let text = tool::feed(&mut nft, "").await?;
        Ok(text
            .split_once("elements = {")
            .map(|(_, rest)| rest.split('}').next().unwrap_or_default().trim().to_owned())
            .unwrap_or_default())
    }
}

/// The rules behind a fault. The original destination is asked for, since here it is translated.
fn rules_of(fault: &Fault) -> Vec<String> {
    let web = WEB.join(", ");
    match fault {
        Fault::InboundPort { floating, port } => vec![format!(
            "iifname \"wan0\" ct original ip daddr {floating} tcp dport {port} drop"
        )],
        Fault::InboundAll { floating } => vec![format!(
            "iifname \"wan0\" ct direction original ct original ip daddr {floating} drop"
        )],
        Fault::Conflict { floating, other } => vec![format!(
            "iifname \"wan0\" ip daddr {floating} dnat to {other}"
        )],
        Fault::Targets => vec![format!("ip daddr {{ {web} }} drop")],
        Fault::Echo => vec![format!(
            "ip daddr {} tcp dport {{ 80, 443 }} reject with tcp reset",
            super::netns::ECHO
        )],
    }
}
