//! Owns the face of the stage: what scenarios may ask of it, whichever ground it stands on.

pub(crate) mod certs;
pub(crate) mod fault;
pub(crate) mod netns;
pub(crate) mod nft;
pub(crate) mod on_loopback;
pub(crate) mod on_namespaces;
pub(crate) mod plan;
pub(crate) mod servers;
pub(crate) mod tool;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use async_trait::async_trait;
use tokio::process::Command;

use fault::{Fault, Ways};
use netns::Rights;
use plan::{Place, Plan};

/// A built stage. Both grounds, namespaces and loopback, offer this.
#[async_trait]
pub(crate) trait Stage: Send + Sync {
    /// Addresses, ports and URLs.
    fn plan(&self) -> &Plan;

    /// The certificate of the CA that the stage's processes trust.
    fn ca_file(&self) -> &Path;

    /// The path under which a process of the stage finds a file of the host.
    fn visible(&self, path: &Path) -> PathBuf;

    /// A command that will run a program at a place and die with the runner.
    fn command(&self, place: Place, rights: Rights, program: &Path) -> Command;

    /// Lets packets flow between a floating and a fixed address, the given ways.
    async fn associate(&self, floating: Ipv4Addr, fixed: Ipv4Addr, ways: Ways) -> Result<()>;

    /// Stops the flow, of open connections too.
    async fn disassociate(&self, floating: Ipv4Addr, fixed: Ipv4Addr) -> Result<()>;

    /// Breaks something until [`Stage::mend`].
    async fn break_with(&self, fault: &Fault) -> Result<()>;

    /// Takes all faults away.
    async fn mend(&self) -> Result<()>;

    /// Takes all associations and faults away.
    async fn reset(&self) -> Result<()>;

    /// The floating addresses that lead somewhere now, as text; empty when none does.
    async fn associated(&self) -> Result<String>;
}
