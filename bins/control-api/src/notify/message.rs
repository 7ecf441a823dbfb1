//! One notification as it goes over the wire: its body, and the signature that proves who sent it.

use std::fmt;

use civ_proto::notify::Notification;
use civ_store::notifications::Notification as Row;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Longest payload that is sent, in bytes: the longest that an agent may report.
const PAYLOAD_BYTES_MAX: usize = 65_536;

/// The key of one receiver. Never printed.
#[derive(Clone)]
pub(super) struct Key(Hmac<Sha256>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    pub(super) fn new(secret: &[u8]) -> Self {
        // HMAC takes keys of any length (RFC 2104 §2): what the library may refuse does not come.
        let mac = Hmac::new_from_slice(secret).unwrap_or_else(|_never| Hmac::new(&[0; 64].into()));
        Self(mac)
    }

    /// `sha256=` and the HMAC-SHA256 of `timestamp.body` in hexadecimal.
    pub(super) fn sign(&self, timestamp: &str, body: &[u8]) -> String {
        let mut mac = self.0.clone();
        mac.update(timestamp.as_bytes());
        mac.update(b".");
        mac.update(body);
        let hex = |byte: u8| format!("{byte:02x}");
        let digest: String = mac.finalize().into_bytes().into_iter().map(hex).collect();
        format!("sha256={digest}")
    }
}

/// The body: one event as JSON, its payload cut where it is too long.
pub(super) fn body(row: &Row) -> Result<Vec<u8>, serde_json::Error> {
    let mut payload = row.payload.clone();
    if PAYLOAD_BYTES_MAX < payload.len() {
        payload.truncate(payload.floor_char_boundary(PAYLOAD_BYTES_MAX));
    }
    serde_json::to_vec(&Notification {
        id: row.event_id,
        event_type: row.event_type.clone(),
        severity: row.severity.clone(),
        ip_address: row.address.clone(),
        validator_id: row.validator.as_ref().map(ToString::to_string),
        site_id: row.site.as_ref().map(ToString::to_string),
        payload,
        occurred_at: row.occurred_at.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use civ_types::Utc;

    use super::*;

    #[test]
    fn a_signature_is_what_openssl_makes_of_it() {
        // printf '1700000000.{"id":1}' | openssl dgst -sha256 -hmac swordfish
        let signed = Key::new(b"swordfish").sign("1700000000", br#"{"id":1}"#);
        assert_eq!(
            signed,
            "sha256=e4095570e3c3721fb3a929b1710aed5a85aa814b23d95550870e04af53bb2f77"
        );
        assert_eq!(format!("{:?}", Key::new(b"swordfish")), "Key");
    }

    #[test]
    fn a_body_is_bounded_and_has_the_documented_fields() {
        let row = Row {
            id: 7,
            event_id: 42,
            event_type: "failed".to_owned(),
            severity: "warning".to_owned(),
            address: Some("203.0.113.10".to_owned()),
            validator: None,
            site: None,
            payload: "ä".repeat(PAYLOAD_BYTES_MAX),
            occurred_at: Utc::EPOCH,
            queued_at: Utc::EPOCH,
            tries: 0,
        };
        let sent: serde_json::Value = serde_json::from_slice(&body(&row).unwrap()).unwrap();
        assert_eq!(sent["id"], 42);
        assert_eq!(sent["validator_id"], serde_json::Value::Null);
        assert_eq!(sent["occurred_at"], "1970-01-01T00:00:00.000000Z");
        assert_eq!(sent["payload"].as_str().unwrap().len(), PAYLOAD_BYTES_MAX);
        assert_eq!(sent.as_object().unwrap().len(), 8);
    }
}
