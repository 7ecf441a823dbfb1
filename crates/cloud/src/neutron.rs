//! Neutron v2.0: reading floating IPs and changing their port. One request a call, and one renewal
//! of the token if it is refused.

use std::collections::BTreeMap;

use reqwest::{Client, Method, Url};
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use civ_types::{Address, FipId, PortId};

use crate::clip::clip;
use crate::cloud::{FloatingIp, Listed, Page};
use crate::fault::{Fault, ReadFault, WriteFault, blame, is_missing, lost_write};
use crate::http::{Answer, NoAnswer, exchange};
use crate::keystone::{Session, Token};
use crate::walk::{Next, Walk};
use crate::wire::{FipOne, FipPage, NetworkPage, PortChange, PortValue};

/// Ports named in one query: 46 bytes each keep the request line well below the 8 kB that proxies
/// commonly take.
const PORTS_PER_QUERY: usize = 100;

/// The keys that a listing of all is about.
const LISTED_FIELDS: [&str; 5] = [
    "id",
    "floating_ip_address",
    "port_id",
    "router_id",
    "port_forwardings",
];

/// Query parameters, in order; keys may repeat.
type Query = Vec<(&'static str, String)>;

/// The typed client.
#[derive(Debug)]
pub(crate) struct Neutron {
    client: Client,
    session: Session,
    floating_network: Option<String>,
    page_size: u32,
    /// Id of `floating_network`, looked up once.
    network_id: OnceCell<String>,
}

impl Neutron {
    pub(crate) fn new(
        client: Client,
        session: Session,
        floating_network: Option<String>,
        page_size: u32,
    ) -> Self {
        Self {
            client,
            session,
            floating_network,
            page_size,
            network_id: OnceCell::new(),
        }
    }

    pub(crate) async fn find(&self, address: Address) -> Result<Option<FloatingIp>, Fault> {
        let mut query = vec![("floating_ip_address", address.to_string())];
        if let Some(id) = self.network_id().await? {
            query.push(("floating_network_id", id));
        }
        let page: FipPage = self.read(&["floatingips"], &query).await?;
        let rows = page.read().map_err(|why| not_understood(&why))?;
        // Whatever a server makes of the filter, only this address counts.
        let mut rows = rows.into_iter().filter(|fip| fip.address == address);
        match (rows.next(), rows.next()) {
            (Some(_), Some(_)) => Err(Fault::Address {
                text: format!(
                    "{address} exists on more than one external network: name one in \
                     openstack.floating_network"
                ),
            }),
            (first, _) => Ok(first),
        }
    }

    pub(crate) async fn get(&self, id: &FipId) -> Result<Option<FloatingIp>, Fault> {
        let answer = self
            .ask(&["floatingips", id.as_str()], &Query::new())
            .await?;
        if !answer.is_success() && is_missing(&answer.refusal()) {
            return Ok(None);
        }
        let one: FipOne = decode_read(&answer)?;
        one.read()
            .map(Some)
            .map_err(|why| not_understood(&why).into())
    }

    pub(crate) async fn on_ports(&self, ports: &[PortId]) -> Result<Vec<FloatingIp>, Fault> {
        let mut found = BTreeMap::new();
        for chunk in ports.chunks(PORTS_PER_QUERY) {
            found.append(&mut self.walk(chunk).await?);
        }
        Ok(found
            .into_values()
            .filter(|fip| fip.port.is_some())
            .collect())
    }

    /// Follows the pages of one listing to its end: see [`crate::walk`].
    async fn walk(&self, ports: &[PortId]) -> Result<BTreeMap<FipId, FloatingIp>, Fault> {
        let (mut walk, mut found) = (Walk::default(), BTreeMap::new());
        let mut marker = None;
        loop {
            let named = ports.iter().map(|port| ("port_id", port.to_string()));
            let query = paging(named.collect(), marker.as_ref(), self.page_size);
            let (rows, has_more) = self.read_page(&query, self.page_size).await?;
            let next = walk.take(rows.iter().map(|fip| fip.id.clone()), has_more);
            found.extend(rows.into_iter().map(|fip| (fip.id.clone(), fip)));
            match next.map_err(|endless| Fault::cloud(endless.to_string()))? {
                Next::After(id) => marker = id,
                Next::End => {
                    found.retain(|id, _| walk.saw(id));
                    return Ok(found);
                }
            }
        }
    }

    async fn read_page(
        &self,
        query: &Query,
        limit: u32,
    ) -> Result<(Vec<FloatingIp>, bool), ReadFault> {
        let page: FipPage = self.read(&["floatingips"], query).await?;
        let has_next = page.has_next();
        let rows = page.read().map_err(|why| not_understood(&why))?;
        let is_full = rows.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
        Ok((rows, has_next || is_full))
    }

    /// One page of all floating IPs, with the keys that are needed and no others.
    pub(crate) async fn page(&self, after: Option<&FipId>, limit: u32) -> Result<Page, ReadFault> {
        let mut query: Query = LISTED_FIELDS
            .iter()
            .map(|key| ("fields", (*key).to_owned()))
            .collect();
        if let Some(id) = self.network_id().await? {
            query.push(("floating_network_id", id));
        }
        let (rows, has_more) = self.read_page(&paging(query, after, limit), limit).await?;
        let rows = rows.into_iter().map(|fip| Listed {
            is_free: fip.is_free(),
            id: fip.id,
            address: fip.address,
        });
        Ok(Page {
            rows: rows.collect(),
            has_more,
        })
    }

    pub(crate) async fn set_port(
        &self,
        id: &FipId,
        port: Option<&PortId>,
        revision: Option<u64>,
    ) -> Result<FloatingIp, WriteFault> {
        let change = PortChange {
            floatingip: PortValue {
                port_id: port.map(PortId::as_str),
            },
        };
        let path = ["floatingips", id.as_str()];
        let send = |token: &Token, url: Url| {
            let token = token.header.clone();
            let change = &change;
            async move {
                exchange(&self.client, Method::PUT, url, |request| {
                    let request = request.header("X-Auth-Token", &token).json(change);
                    match revision {
                        Some(n) => request.header("If-Match", format!("revision_number={n}")),
                        None => request,
                    }
                })
                .await
            }
        };
        let answer = match self.with_token(&path, &Query::new(), send).await? {
            Ok(answer) => answer,
            Err(lost) if lost.maybe_received => return Err(lost_write(lost.text, None)),
            Err(lost) => return Err(Fault::cloud(lost.text).into()),
        };
        if !answer.is_success() {
            return Err(blame(&answer.refusal()));
        }
        let one = serde_json::from_slice(&answer.body).map_err(|error| error.to_string());
        one.and_then(FipOne::read).map_err(|why| {
            lost_write(
                format!(
                    "the answer to {} is not understood: {}",
                    answer.asked,
                    clip(&why)
                ),
                None,
            )
        })
    }

    async fn network_id(&self) -> Result<Option<String>, ReadFault> {
        let Some(wanted) = &self.floating_network else {
            return Ok(None);
        };
        let id = self
            .network_id
            .get_or_try_init(|| self.look_up_network(wanted));
        id.await.cloned().map(Some)
    }

    async fn look_up_network(&self, wanted: &str) -> Result<String, ReadFault> {
        for key in ["id", "name"] {
            let page: NetworkPage = self
                .read(&["networks"], &vec![(key, wanted.to_owned())])
                .await?;
            match page.networks.as_slice() {
                [] => {}
                [one] => return Ok(one.id.clone()),
                _ => {
                    return Err(ReadFault::lasting(format!(
                        "several networks are named {wanted:?}: give the id in \
                         openstack.floating_network"
                    )));
                }
            }
        }
        Err(ReadFault::lasting(format!(
            "there is no network {wanted:?}, or it is not shown to us: see \
             openstack.floating_network"
        )))
    }

    async fn read<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &Query,
    ) -> Result<T, ReadFault> {
        decode_read(&self.ask(path, query).await?)
    }

    async fn ask(&self, path: &[&str], query: &Query) -> Result<Answer, ReadFault> {
        let send = |token: &Token, url: Url| {
            let token = token.header.clone();
            async move {
                exchange(&self.client, Method::GET, url, |request| {
                    request.header("X-Auth-Token", &token)
                })
                .await
            }
        };
        let sent = self.with_token(path, query, send).await?;
        sent.map_err(|lost| ReadFault::passing(lost.text))
    }

    /// Sends with a token, and once more with a new one if that was refused. A second 401 is the
    /// answer: a renewal that does not help would otherwise go on for ever.
    async fn with_token<F>(
        &self,
        path: &[&str],
        query: &Query,
        send: impl Fn(&Token, Url) -> F,
    ) -> Result<Result<Answer, NoAnswer>, ReadFault>
    where
        F: Future<Output = Result<Answer, NoAnswer>>,
    {
        let token = self.session.token(None).await?;
        let first = send(&token, url(&token.network_url, path, query)).await;
        if !first.as_ref().is_ok_and(|answer| answer.status == 401) {
            return Ok(first);
        }
        let token = self.session.token(Some(token.generation)).await?;
        Ok(send(&token, url(&token.network_url, path, query)).await)
    }
}

/// The parameters of one page. In order of id, so that a marker means the same to every page.
fn paging(mut query: Query, after: Option<&FipId>, limit: u32) -> Query {
    query.push(("limit", limit.to_string()));
    query.push(("sort_key", "id".to_owned()));
    query.push(("sort_dir", "asc".to_owned()));
    query.extend(after.map(|id| ("marker", id.to_string())));
    query
}

fn url(base: &Url, path: &[&str], query: &Query) -> Url {
    let mut url = base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().push("v2.0").extend(path);
    }
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    url
}

fn decode_read<T: DeserializeOwned>(answer: &Answer) -> Result<T, ReadFault> {
    if !answer.is_success() {
        return Err(ReadFault::refused(&answer.refusal()));
    }
    serde_json::from_slice(&answer.body).map_err(|error| {
        let why = clip(&error.to_string());
        ReadFault::passing(format!(
            "the answer to {} is not understood: {why}",
            answer.asked
        ))
    })
}

fn not_understood(why: &str) -> ReadFault {
    ReadFault::passing(format!(
        "a floating IP in Neutron's answer is not understood: {why}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_prefix_is_kept_and_ids_are_escaped() {
        let base = Url::parse("https://cloud/networking").unwrap();
        let made = url(
            &base,
            &["floatingips", "a?b"],
            &vec![("port_id", "p&1".to_owned())],
        );
        let text = "https://cloud/networking/v2.0/floatingips/a%3Fb?port_id=p%261";
        assert_eq!(made.as_str(), text);
    }
}
