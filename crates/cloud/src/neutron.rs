//! Neutron v2.0: reading floating IPs and changing their port. One request a call, and one renewal
//! of the token if it is refused.

use std::collections::BTreeMap;

use reqwest::{Method, Url};
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use civ_types::{Address, FipId, PortId};

use crate::clip::clip;
use crate::cloud::{FloatingIp, Listed, Page};
use crate::fault::{Fault, ReadFault, WriteFault, blame, is_missing, lost_write};
use crate::http::{Answer, Http, NoAnswer, exchange};
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

/// The keys of a floating IP that is to be changed.
const SHOWN_FIELDS: [&str; 10] = [
    "id",
    "floating_ip_address",
    "port_id",
    "fixed_ip_address",
    "router_id",
    "port_forwardings",
    "revision_number",
    "status",
    "floating_network_id",
    "description",
];

/// The key by which it is seen which network a row is of.
const NETWORK_FIELD: &str = "floating_network_id";

/// Query parameters, in order; keys may repeat.
pub(crate) type Query = Vec<(&'static str, String)>;

/// The typed client.
#[derive(Debug)]
pub(crate) struct Neutron {
    http: Http,
    pub(crate) session: Session,
    floating_network: Option<String>,
    page_size: u32,
    /// Id of `floating_network`, looked up once.
    network_id: OnceCell<String>,
}

impl Neutron {
    pub(crate) fn new(
        http: Http,
        session: Session,
        floating_network: Option<String>,
        page_size: u32,
    ) -> Self {
        Self {
            http,
            session,
            floating_network,
            page_size,
            network_id: OnceCell::new(),
        }
    }

    pub(crate) async fn find(&self, address: Address) -> Result<Option<FloatingIp>, Fault> {
        let mut query = only(&SHOWN_FIELDS);
        query.push(("floating_ip_address", address.to_string()));
        let network = self.network_id().await?;
        query.extend(network.clone().map(|id| (NETWORK_FIELD, id)));
        let page: FipPage = self.read(&["floatingips"], &query).await?;
        let rows = page.read().map_err(|why| not_understood(&why))?;
        // Whatever a server makes of the filters, only this address counts.
        let mut rows = rows
            .into_iter()
            .filter(|fip| fip.address == address && is_of(fip, network.as_deref()));
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
            .ask(&["floatingips", id.as_str()], &only(&SHOWN_FIELDS))
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
            let named = chunk.iter().map(|port| ("port_id", port.to_string()));
            found.append(&mut self.walk(&named.collect()).await?);
        }
        Ok(found
            .into_values()
            .filter(|fip| fip.port.is_some())
            .collect())
    }

    /// Follows the pages of one listing to its end: see [`crate::walk`].
    pub(crate) async fn walk(&self, filter: &Query) -> Result<BTreeMap<FipId, FloatingIp>, Fault> {
        let (mut walk, mut found) = (Walk::default(), BTreeMap::new());
        let mut marker = None;
        loop {
            let filter = filter.iter().cloned();
            let query = only(&SHOWN_FIELDS).into_iter().chain(filter).collect();
            let query = paging(query, marker.as_ref(), self.page_size);
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
        let answer = self.ask(&["floatingips"], query).await?;
        let marked = query.iter().any(|(key, _)| *key == MARKER);
        // Some clouds refuse a marker whose row is gone, where Neutron gives the first page again:
        // the walk knows what to make of that.
        let page: FipPage = if marked && answer.status == 400 {
            let first = query.iter().filter(|(key, _)| *key != MARKER);
            let first: Query = first.cloned().collect();
            self.read(&["floatingips"], &first).await?
        } else {
            decode_read(&answer)?
        };
        let may_go_on = page.may_go_on();
        let rows = page.read().map_err(|why| not_understood(&why))?;
        let is_full = rows.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
        Ok((rows, may_go_on || is_full))
    }

    /// One page of all floating IPs, with the keys that are needed and no others.
    pub(crate) async fn page(&self, after: Option<&FipId>, limit: u32) -> Result<Page, ReadFault> {
        let mut query = only(&LISTED_FIELDS);
        let network = self.network_id().await?;
        if let Some(id) = &network {
            query.push(("fields", NETWORK_FIELD.to_owned()));
            query.push((NETWORK_FIELD, id.clone()));
        }
        let (rows, has_more) = self.read_page(&paging(query, after, limit), limit).await?;
        // What a server shows of other networks all the same is passed, but never taken.
        let rows = rows.into_iter().map(|fip| Listed {
            is_free: fip.is_free() && is_of(&fip, network.as_deref()),
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
        description: Option<&str>,
    ) -> Result<FloatingIp, WriteFault> {
        let change = PortChange {
            floatingip: PortValue {
                port_id: port.map(PortId::as_str),
                description,
            },
        };
        let path = ["floatingips", id.as_str()];
        let send = |token: &Token, url: Url| {
            let token = token.header.clone();
            let change = &change;
            async move {
                exchange(&self.http, Method::PUT, url, |request| {
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

    pub(crate) async fn network_id(&self) -> Result<Option<String>, ReadFault> {
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

    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &Query,
    ) -> Result<T, ReadFault> {
        decode_read(&self.ask(path, query).await?)
    }

    pub(crate) async fn ask(&self, path: &[&str], query: &Query) -> Result<Answer, ReadFault> {
        let send = |token: &Token, url: Url| {
            let token = token.header.clone();
            async move {
                exchange(&self.http, Method::GET, url, |request| {
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

/// The description of a floating IP that we hold.
pub(crate) const MARK: &str = "held by cloud-ip-validator";

/// What a write makes of the description: marks what has none, and takes our own mark off again.
/// What somebody else wrote there stays.
pub(crate) fn mark(seen: &FloatingIp, port: Option<&PortId>) -> Option<&'static str> {
    match (seen.description.as_deref(), port) {
        (Some(""), Some(_)) => Some(MARK),
        (Some(MARK), None) => Some(""),
        _ => None,
    }
}

/// The parameters of one page. In order of id, so that a marker means the same to every page.
fn paging(mut query: Query, after: Option<&FipId>, limit: u32) -> Query {
    query.push(("limit", limit.to_string()));
    query.push(("sort_key", "id".to_owned()));
    query.push(("sort_dir", "asc".to_owned()));
    query.extend(after.map(|id| (MARKER, id.to_string())));
    query
}

/// The parameter behind which a page begins.
const MARKER: &str = "marker";

/// Parameters that ask for these keys and no others.
fn only(fields: &[&str]) -> Query {
    let fields = fields.iter().map(|key| ("fields", (*key).to_owned()));
    fields.collect()
}

/// Whether a row is of the wanted network, whatever a server makes of the filter.
fn is_of(fip: &FloatingIp, network: Option<&str>) -> bool {
    match (network, fip.network.as_deref()) {
        (Some(wanted), Some(of)) => wanted == of,
        _ => true,
    }
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

pub(crate) fn decode_read<T: DeserializeOwned>(answer: &Answer) -> Result<T, ReadFault> {
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
