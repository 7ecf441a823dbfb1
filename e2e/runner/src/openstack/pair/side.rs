//! Owns one of the two clouds: turns a named call into a request, and an answer into what can be
//! compared with the other cloud's.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};

use super::step::{Condition, Fip, Network, Port, Step, Tags};
use crate::openstack::rest::{Answer, Ask, Rest, text};

/// A UUID that is nobody's.
const NOBODY: &str = "5a1f3c1e-0000-4000-8000-00000000beef";
/// Pages after which a walk is one without an end.
const PAGES_MAX: usize = 40;

/// What both clouds have in common.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub(super) routed: [String; 3],
    pub(super) unrouted: String,
    pub(super) two_addresses: String,
    pub(super) first_of_two: String,
    pub(super) foreign_port: String,
    pub(super) foreign_fip: String,
    pub(super) network: String,
}

/// One of the two clouds.
#[derive(Debug)]
pub(super) struct Side {
    rest: Rest,
    names: Names,
    /// Ids of floating IPs, in the order in which they came.
    fips: Vec<String>,
    revisions: BTreeMap<String, u64>,
}

/// What came of a call, in words that mean the same in both clouds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    /// HTTP status and error type.
    pub(super) answer: String,
    /// What was returned, as far as it is compared.
    pub(super) seen: String,
}

/// All floating IPs, in the order in which they came.
pub(super) type State = Vec<String>;

impl Side {
    /// `first` are the floating addresses that are there, in the order in which they are known.
    ///
    /// # Errors
    ///
    /// When one is missing.
    pub(super) async fn new(rest: Rest, names: Names, first: &[String]) -> Result<Self> {
        let rows = rest.all("floatingips", "").await?;
        let id = |address: &String| {
            let found = rows
                .iter()
                .find(|row| text(row, "floating_ip_address") == address);
            let found = found.with_context(|| format!("{address} is not there"))?;
            Ok(text(found, "id").to_owned())
        };
        let fips = first.iter().map(id).collect::<Result<_>>()?;
        let mut side = Self {
            rest,
            names,
            fips,
            revisions: BTreeMap::new(),
        };
        side.state().await?;
        Ok(side)
    }

    /// What is there now.
    ///
    /// # Errors
    ///
    /// When the cloud does not list.
    pub(super) async fn state(&mut self) -> Result<State> {
        let rows = self.rest.all("floatingips", "").await?;
        self.revisions = rows
            .iter()
            .filter_map(|row| Some((text(row, "id").to_owned(), row["revision_number"].as_u64()?)))
            .collect();
        let mut rows: Vec<_> = rows.iter().map(|row| (self.place(row), row)).collect();
        rows.sort_by_key(|(place, _)| *place);
        Ok(rows.iter().map(|(_, row)| self.words(row)).collect())
    }

    /// Carries out a call.
    ///
    /// # Errors
    ///
    /// When no answer comes.
    pub(super) async fn play(&mut self, step: &Step) -> Result<Outcome> {
        if let Step::Walk(limit) = step {
            return self.walk(*limit).await;
        }
        let ask = self.ask(step);
        let answer = self.rest.ask(&ask).await?;
        if let (Step::Create(..) | Step::CreateOdd(_), 201) = (step, answer.status) {
            self.fips
                .push(text(&answer.body["floatingip"], "id").to_owned());
        }
        let kind = answer.kind().unwrap_or("no NeutronError");
        let refused = answer.status >= 400;
        Ok(Outcome {
            answer: match refused {
                true => format!("{} {kind}", answer.status),
                false => answer.status.to_string(),
            },
            seen: if refused {
                String::new()
            } else {
                self.seen(&answer)
            },
        })
    }

    /// Follows `next` until there is none or a page is empty.
    async fn walk(&self, limit: u8) -> Result<Outcome> {
        let (mut sizes, mut found, mut marker) = (Vec::new(), Vec::new(), String::new());
        while sizes.len() < PAGES_MAX {
            let path = format!("floatingips?limit={limit}{marker}");
            let page = self.rest.must(Ask::bare(Method::GET, path)).await?;
            let rows = page["floatingips"].as_array().cloned().unwrap_or_default();
            sizes.push(rows.len());
            found.extend(rows.iter().map(|row| self.place(row)));
            let links = page["floatingips_links"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let has_next = links.iter().any(|link| link["rel"] == "next");
            match rows.last() {
                Some(last) if has_next => marker = format!("&marker={}", text(last, "id")),
                _ => break,
            }
        }
        found.sort_unstable();
        Ok(Outcome {
            answer: "200".to_owned(),
            seen: format!("pages of {sizes:?} rows with {found:?}"),
        })
    }

    fn seen(&self, answer: &Answer) -> String {
        let body = &answer.body;
        if let Some(rows) = body["floatingips"].as_array() {
            let mut rows: Vec<_> = rows.iter().map(|row| (self.place(row), row)).collect();
            rows.sort_by_key(|(place, _)| *place);
            let links = body["floatingips_links"].is_array();
            let rows: Vec<_> = rows.iter().map(|(_, row)| self.words(row)).collect();
            return format!("links {links}, {rows:?}");
        }
        if body["floatingip"].is_object() {
            return self.words(&body["floatingip"]);
        }
        if body["tags"].is_array() {
            let mut tags = body["tags"].as_array().cloned().unwrap_or_default();
            tags.sort_by_key(Value::to_string);
            return format!("tags {tags:?}");
        }
        let port = &body["port"];
        format!("port {} {}", port["id"], port["device_owner"])
    }

    /// The number under which a floating IP is known.
    fn place(&self, row: &Value) -> usize {
        let id = text(row, "id");
        let place = self.fips.iter().position(|known| known == id);
        place.unwrap_or(usize::MAX)
    }

    /// A floating IP as far as both clouds must agree. A key that is not shown says so.
    fn words(&self, row: &Value) -> String {
        let shown = |key: &str| match row.get(key) {
            None => "not shown".to_owned(),
            Some(value) => value.to_string(),
        };
        let is_set = |key: &str| row.get(key).map(|value| !value.is_null());
        let mut tags = row["tags"].as_array().cloned();
        if let Some(tags) = &mut tags {
            tags.sort_by_key(Value::to_string);
        }
        format!(
            "#{}: port {}, fixed {}, router {:?}, details {:?}, status {}, revision {}, \
             description {}, tags {:?}",
            self.place(row),
            shown("port_id"),
            shown("fixed_ip_address"),
            is_set("router_id"),
            is_set("port_details"),
            shown("status"),
            shown("revision_number"),
            shown("description"),
            tags.map(|tags| Value::from(tags).to_string()),
        )
    }

    fn fip(&self, fip: Fip) -> &str {
        match fip {
            Fip::Known(_) if self.fips.is_empty() => NOBODY,
            Fip::Known(n) => &self.fips[n % self.fips.len()],
            Fip::Unknown => NOBODY,
            Fip::Foreign => &self.names.foreign_fip,
            Fip::Malformed => "no-uuid",
        }
    }

    fn port(&self, port: Port) -> Value {
        let names = &self.names;
        match port {
            Port::Routed(n) => json!(names.routed[usize::from(n) % names.routed.len()]),
            Port::Unrouted => json!(names.unrouted),
            Port::TwoAddresses | Port::FirstOfTwo => json!(names.two_addresses),
            Port::WrongAddress => json!(names.routed[0]),
            Port::Unknown => json!(NOBODY),
            Port::Foreign => json!(names.foreign_port),
            Port::Malformed => json!("no-uuid"),
            Port::Null => Value::Null,
        }
    }

    /// `port_id`, with the fixed address that some ports are named with.
    fn binding(&self, port: Port) -> Value {
        let mut body = json!({"port_id": self.port(port)});
        match port {
            Port::FirstOfTwo => body["fixed_ip_address"] = json!(self.names.first_of_two),
            Port::WrongAddress => body["fixed_ip_address"] = json!("10.92.0.250"),
            _ => {}
        }
        body
    }

    fn ask(&self, step: &Step) -> Ask {
        let get = |path: String| Ask::bare(Method::GET, path);
        match step {
            Step::Create(network, port) => {
                let mut body = self.binding(*port);
                if *port == Port::Null {
                    body = json!({});
                }
                body["floating_network_id"] = match network {
                    Network::External => json!(self.names.network),
                    Network::Unknown => json!(NOBODY),
                    Network::Malformed => json!("no-uuid"),
                };
                Ask::with(Method::POST, "floatingips", &json!({ "floatingip": body }))
            }
            Step::CreateOdd(body) => raw(Method::POST, "floatingips".to_owned(), body),
            Step::Bind(fip, port, condition) => self.put(*fip, &self.binding(*port), *condition),
            Step::Describe(fip, text, condition) => {
                self.put(*fip, &json!({ "description": text }), *condition)
            }
            Step::Odd(fip, body) => raw(Method::PUT, self.path(*fip), body),
            Step::Delete(fip, condition) => Ask {
                if_match: self.revision(*fip, *condition),
                ..Ask::bare(Method::DELETE, self.path(*fip))
            },
            Step::Show(fip) => get(self.path(*fip)),
            Step::ShowPort(port) => {
                let port = self.port(*port);
                get(format!("ports/{}", port.as_str().unwrap_or("no-uuid")))
            }
            Step::List(query) => get(format!("floatingips?{query}")),
            Step::ListOn(port) => {
                let port = self.port(*port);
                get(format!(
                    "floatingips?port_id={}",
                    port.as_str().unwrap_or_default()
                ))
            }
            Step::Walk(limit) => get(format!("floatingips?limit={limit}")),
            Step::Tags(fip, tags) => self.tags(*fip, *tags),
        }
    }

    fn tags(&self, fip: Fip, tags: Tags) -> Ask {
        let all = format!("{}/tags", self.path(fip));
        match tags {
            Tags::Get => Ask::bare(Method::GET, all),
            Tags::Replace(list) => raw(Method::PUT, all, &format!("{{\"tags\": {list}}}")),
            Tags::Add(tag) => Ask::bare(Method::PUT, format!("{all}/{tag}")),
            Tags::Find(tag) => Ask::bare(Method::GET, format!("{all}/{tag}")),
            Tags::Remove(tag) => Ask::bare(Method::DELETE, format!("{all}/{tag}")),
            Tags::Clear => Ask::bare(Method::DELETE, all),
        }
    }

    fn path(&self, fip: Fip) -> String {
        format!("floatingips/{}", self.fip(fip))
    }

    fn put(&self, fip: Fip, changes: &Value, condition: Condition) -> Ask {
        let body = json!({ "floatingip": changes });
        Ask {
            if_match: self.revision(fip, condition),
            ..Ask::with(Method::PUT, self.path(fip), &body)
        }
    }

    fn revision(&self, fip: Fip, condition: Condition) -> Option<u64> {
        let now = self
            .revisions
            .get(self.fip(fip))
            .copied()
            .unwrap_or_default();
        match condition {
            Condition::None => None,
            Condition::Current => Some(now),
            Condition::Stale => Some(now + 3),
        }
    }
}

fn raw(method: Method, path: String, body: &str) -> Ask {
    Ask {
        body: Some(body.to_owned()),
        ..Ask::bare(method, path)
    }
}
