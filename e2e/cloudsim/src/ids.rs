//! Ids that are the same in every run, made from names.

use std::net::IpAddr;

/// 32 hex digits, as Keystone writes ids: FNV-1a (draft-eastlake-fnv), 128 bits.
pub(crate) fn hex_id(name: &str) -> String {
    let basis: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let step = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul((1 << 88) + 0x13B);
    format!("{:032x}", name.bytes().fold(basis, step))
}

/// The same as a UUID, as Neutron writes ids.
pub(crate) fn dashed(name: &str) -> String {
    uuid::Uuid::parse_str(&hex_id(name)).map_or_else(|_| name.to_owned(), |id| id.to_string())
}

/// The id of a floating IP that is there from the start.
pub(crate) fn fip_id(address: IpAddr) -> String {
    let bits = match address {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    uuid::Builder::from_custom_bytes((bits ^ (0xF1_F0 << 112)).to_be_bytes())
        .into_uuid()
        .to_string()
}

/// Of a project with this name.
pub(crate) fn project_id(name: &str) -> String {
    hex_id(&format!("project {name}"))
}

/// Of a user with this name.
pub(crate) fn user_id(name: &str) -> String {
    hex_id(&format!("user {name}"))
}

/// An Ethernet address in OpenStack's range.
pub(crate) fn mac(port: &str) -> String {
    let id = hex_id(port);
    let octets = id.as_bytes().chunks(2).take(3);
    let tail: Vec<&str> = octets
        .filter_map(|pair| std::str::from_utf8(pair).ok())
        .collect();
    format!("fa:16:3e:{}", tail.join(":"))
}

/// Whether Neutron takes it for a UUID: with or without hyphens.
pub(crate) fn is_uuid(text: &str) -> bool {
    uuid::Uuid::parse_str(text).is_ok()
}
