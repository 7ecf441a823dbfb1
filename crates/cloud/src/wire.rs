//! The shapes on the wire, as far as we read or write them. Keys that not every cloud sends are
//! optional; a missing `port_id` is an error, for taken as null it would look like "free".

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use civ_types::{Address, FipId, PortId};

use crate::clip::clip;
use crate::cloud::FloatingIp;

/// `{"floatingip": …}`.
#[derive(Debug, Deserialize)]
pub(crate) struct FipOne {
    floatingip: FipRow,
}

/// `{"floatingips": […], "floatingips_links": […]}`.
#[derive(Debug, Deserialize)]
pub(crate) struct FipPage {
    floatingips: Vec<FipRow>,
    floatingips_links: Option<Vec<Link>>,
}

#[derive(Debug, Deserialize)]
struct Link {
    rel: String,
}

#[derive(Debug, Deserialize)]
struct FipRow {
    id: String,
    floating_ip_address: String,
    #[serde(deserialize_with = "null_or")]
    port_id: Option<String>,
    fixed_ip_address: Option<String>,
    router_id: Option<String>,
    port_forwardings: Option<Vec<IgnoredAny>>,
    revision_number: Option<u64>,
    status: Option<String>,
    floating_network_id: Option<String>,
    description: Option<String>,
}

/// Null is `None`; unlike for a plain `Option`, a missing key is an error.
fn null_or<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(deserializer)
}

impl FipOne {
    pub(crate) fn read(self) -> Result<FloatingIp, String> {
        self.floatingip.read()
    }
}

impl FipPage {
    /// Whether more may follow: the answer says so, or says nothing about pages at all although it
    /// was asked for one.
    pub(crate) fn may_go_on(&self) -> bool {
        match &self.floatingips_links {
            Some(links) => links.iter().any(|link| link.rel == "next"),
            None => !self.floatingips.is_empty(),
        }
    }

    pub(crate) fn read(self) -> Result<Vec<FloatingIp>, String> {
        self.floatingips.into_iter().map(FipRow::read).collect()
    }
}

impl FipRow {
    fn read(self) -> Result<FloatingIp, String> {
        let bad = |key: &str, value: &str| format!("{key} {:?} makes no sense", clip(value));
        let address = |key: &str, text: &str| Address::parse(text).map_err(|_e| bad(key, text));
        let port = self
            .port_id
            .map(|text| PortId::parse(&text).map_err(|_e| bad("port_id", &text)));
        let fixed = self
            .fixed_ip_address
            .map(|text| address("fixed_ip_address", &text));
        Ok(FloatingIp {
            id: FipId::parse(&self.id).map_err(|_e| bad("id", &self.id))?,
            address: address("floating_ip_address", &self.floating_ip_address)?,
            port: port.transpose()?,
            fixed_address: fixed.transpose()?,
            router: self.router_id,
            forwardings: self.port_forwardings.is_some_and(|list| !list.is_empty()),
            revision: self.revision_number,
            status: self.status,
            network: self.floating_network_id,
            description: self.description,
        })
    }
}

/// `{"floatingip": {"port_id": …}}`. The key is always there: Neutron takes an empty object for a
/// disassociation, too.
#[derive(Debug, Serialize)]
pub(crate) struct PortChange<'a> {
    pub(crate) floatingip: PortValue<'a>,
}

#[derive(Debug, Serialize)]
pub(crate) struct PortValue<'a> {
    pub(crate) port_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<&'a str>,
}

/// `{"networks": […]}`.
#[derive(Debug, Deserialize)]
pub(crate) struct NetworkPage {
    pub(crate) networks: Vec<NetworkRow>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct NetworkRow {
    pub(crate) id: String,
}

/// What Keystone says of a token (Identity API v3, "Password authentication with scoped
/// authorization").
#[derive(Debug, Deserialize)]
pub(crate) struct TokenOne {
    pub(crate) token: TokenRow,
}

#[derive(Debug, Deserialize)]
pub(crate) struct TokenRow {
    pub(crate) issued_at: String,
    pub(crate) expires_at: String,
    pub(crate) project: Option<Project>,
    #[serde(default)]
    pub(crate) roles: Vec<Role>,
    #[serde(default)]
    pub(crate) catalog: Vec<Service>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Project {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) name: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Role {
    pub(crate) name: String,
}

/// `{"extensions": […]}`.
#[derive(Debug, Deserialize)]
pub(crate) struct ExtensionPage {
    pub(crate) extensions: Vec<Extension>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Extension {
    pub(crate) alias: String,
}

/// `{"quota": {"floatingip": …}}`.
#[derive(Debug, Deserialize)]
pub(crate) struct QuotaOne {
    pub(crate) quota: QuotaRow,
}

#[derive(Debug, Deserialize)]
pub(crate) struct QuotaRow {
    pub(crate) floatingip: Amount,
}

/// A limit alone, or with what is used of it (extension `quota_details`).
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Amount {
    Detailed { limit: i64, used: u64 },
    Limit(i64),
}

/// `{"port": …}`.
#[derive(Debug, Deserialize)]
pub(crate) struct PortOne {
    pub(crate) port: PortRow,
}

#[derive(Debug, Deserialize)]
pub(crate) struct PortRow {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) project_id: String,
    #[serde(default)]
    pub(crate) device_id: String,
    #[serde(default)]
    pub(crate) device_owner: String,
    pub(crate) admin_state_up: Option<bool>,
    #[serde(default)]
    pub(crate) fixed_ips: Vec<FixedIp>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FixedIp {
    pub(crate) ip_address: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Service {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) endpoints: Vec<Endpoint>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Endpoint {
    pub(crate) interface: String,
    pub(crate) region_id: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) url: String,
}

/// What an error body says, in whichever of the known shapes it came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ErrorBody {
    /// `NeutronError.type`.
    pub(crate) kind: Option<String>,
    /// The message, or the text of an HTML page.
    pub(crate) message: String,
}

#[derive(Deserialize)]
struct NeutronShape {
    #[serde(rename = "NeutronError")]
    error: NeutronReason,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NeutronReason {
    Typed {
        #[serde(rename = "type")]
        kind: String,
        message: String,
    },
    Plain(String),
}

/// Keystone's shape, also used by the middleware in front of Neutron.
#[derive(Deserialize)]
struct KeystoneShape {
    error: KeystoneReason,
}

#[derive(Deserialize)]
struct KeystoneReason {
    message: String,
}

impl ErrorBody {
    /// Never fails: a body in no known shape is quoted, an HTML page by its text.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        if let Ok(NeutronShape { error }) = serde_json::from_slice(bytes) {
            return match error {
                NeutronReason::Typed { kind, message } => Self {
                    kind: Some(kind),
                    message,
                },
                NeutronReason::Plain(message) => Self {
                    kind: None,
                    message,
                },
            };
        }
        let message = match serde_json::from_slice(bytes) {
            Ok(KeystoneShape { error }) => error.message,
            Err(_) => without_tags(&String::from_utf8_lossy(bytes)),
        };
        Self {
            kind: None,
            message,
        }
    }
}

fn without_tags(page: &str) -> String {
    let mut inside = false;
    page.chars()
        .filter_map(|c| {
            let was_inside = inside;
            inside = match c {
                '<' => true,
                '>' => false,
                _ => inside,
            };
            match (c, was_inside || inside) {
                ('>', _) => Some(' '),
                (_, true) => None,
                (c, false) => Some(c),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = r#"{"floatingip": {"id": "f-1", "floating_ip_address": "203.0.113.59",
        "floating_network_id": "n-1", "status": "DOWN", "port_id": null"#;

    fn read(more: &str) -> FloatingIp {
        let one: FipOne = serde_json::from_str(&format!("{ROW}{more}}}}}")).unwrap();
        one.read().unwrap()
    }

    #[test]
    fn optional_keys_may_be_absent() {
        let fip = read("");
        assert!(fip.is_free());
        assert_eq!(fip.revision, None);
        assert_eq!(fip.usage(), "free");
    }

    #[test]
    fn an_address_with_port_forwardings_is_not_free() {
        let by_router = read(r#", "router_id": "r-1""#);
        let by_list = read(r#", "port_forwardings": [{"protocol": "tcp"}]"#);
        assert!(!by_router.is_free() && !by_list.is_free());
        assert!(read(r#", "port_forwardings": []"#).is_free());
    }

    #[test]
    fn a_missing_port_id_is_not_a_free_address() {
        let without = ROW.replace(r#", "port_id": null"#, "");
        assert!(serde_json::from_str::<FipOne>(&format!("{without}}}}}")).is_err());
    }

    #[test]
    fn a_row_that_makes_no_sense_is_refused_by_key() {
        let text = ROW.replace("203.0.113.59", "nowhere");
        let one: FipOne = serde_json::from_str(&format!("{text}}}}}")).unwrap();
        assert!(one.read().unwrap_err().contains("floating_ip_address"));
    }

    #[test]
    fn errors_are_read_in_every_shape() {
        let neutron =
            br#"{"NeutronError": {"type": "PortNotFound", "message": "m", "detail": ""}}"#;
        assert_eq!(
            ErrorBody::parse(neutron).kind.as_deref(),
            Some("PortNotFound")
        );
        assert_eq!(
            ErrorBody::parse(br#"{"NeutronError": "old"}"#).message,
            "old"
        );
        let keystone = br#"{"error": {"code": 401, "message": "who?", "title": "Unauthorized"}}"#;
        assert_eq!(ErrorBody::parse(keystone).message, "who?");
        let html = ErrorBody::parse(b"<html><h1>503</h1>No server</html>");
        assert_eq!(clip(&html.message), "503 No server");
        assert_eq!(ErrorBody::parse(b""), ErrorBody::default());
        assert_eq!(ErrorBody::parse(&[0xff, 0xfe]).kind, None);
    }

    #[test]
    fn a_release_names_the_port_explicitly() {
        let change = PortChange {
            floatingip: PortValue {
                port_id: None,
                description: None,
            },
        };
        let text = serde_json::to_string(&change).unwrap();
        assert_eq!(text, r#"{"floatingip":{"port_id":null}}"#);
    }
}
