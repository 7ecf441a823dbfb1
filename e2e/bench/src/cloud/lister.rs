//! The product's client, listing as a scan does: page by page, merged by id.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use civ_cloud::walk::{Next, Walk};
use civ_cloud::{Auth, Cloud as _, Domain, OpenStack, OpenStackConfig, Scope, User};
use civ_types::{Address, FipId};
use clap::Args;

use crate::say;

/// Rows of a page, the same for all listers.
const PAGE: u32 = 1_000;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Keystone's address
    url: String,
    /// Print the most memory that this process has taken, too, in MB
    #[arg(long)]
    memory: bool,
}

fn connect(url: &str) -> Result<OpenStack> {
    let domain = || Domain::Id("default".to_owned());
    Ok(OpenStack::connect(OpenStackConfig {
        auth: Auth::Password {
            user: User::Name {
                name: "u".to_owned(),
                domain: domain(),
            },
            password: "p".to_owned().into(),
            scope: Scope::ProjectName {
                name: "p".to_owned(),
                domain: domain(),
            },
        },
        auth_url: url.to_owned(),
        region: Some("RegionOne".to_owned()),
        interface: "public".to_owned(),
        ca_file: None,
        floating_network: None,
        endpoint_override: None,
        request_timeout: Duration::from_secs(60),
        list_page_size: PAGE,
    })?)
}

pub(crate) async fn list(args: &ListArgs) -> Result<()> {
    let cloud = connect(&args.url)?;
    let mut all: BTreeMap<FipId, (Address, bool)> = BTreeMap::new();
    let (mut walk, mut marker) = (Walk::default(), None::<FipId>);
    loop {
        let page = cloud.page(marker.as_ref(), PAGE).await?;
        let next = walk.take(page.rows.iter().map(|row| row.id.clone()), page.has_more)?;
        let rows = page.rows.into_iter();
        all.extend(rows.map(|row| (row.id, (row.address, row.is_free))));
        match next {
            Next::After(id) => marker = id,
            Next::End => break,
        }
    }
    all.retain(|id, _| walk.saw(id));
    let n = all.len();
    if args.memory {
        say(&format!("{n} {:.1}", peak()?));
    } else {
        say(&n.to_string());
    }
    Ok(())
}

/// The most memory that this process has taken, in MB.
fn peak() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    let kib: f64 = kib.context("no VmHWM")?.parse()?;
    Ok(kib * 1_024.0 / 1_000_000.0)
}
