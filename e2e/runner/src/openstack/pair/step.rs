//! Owns the calls of the comparison, by names that mean the same in both clouds, and the dice that
//! choose them. Knows no ids and sends nothing.

use crate::chance::Chance;

/// A floating IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fip {
    /// The n-th that was there or made, counted round.
    Known(usize),
    /// A UUID that is nobody's.
    Unknown,
    /// Another project's.
    Foreign,
    /// No UUID.
    Malformed,
}

/// A port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    /// One of three with a way to the external network.
    Routed(u8),
    /// Without such a way.
    Unrouted,
    /// With two fixed addresses, of which none is named.
    TwoAddresses,
    /// The same, and its first address is named.
    FirstOfTwo,
    /// An address is named that is not the port's.
    WrongAddress,
    /// A UUID that is nobody's.
    Unknown,
    /// Another project's.
    Foreign,
    /// No UUID.
    Malformed,
    /// None.
    Null,
}

/// What `If-Match` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// Nothing.
    None,
    /// The revision that the floating IP has.
    Current,
    /// Another one.
    Stale,
}

/// A network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    /// The external one.
    External,
    /// A UUID that is nobody's.
    Unknown,
    /// No UUID.
    Malformed,
}

/// What is done with tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tags {
    /// Reads all.
    Get,
    /// Puts this list in the place of all.
    Replace(&'static str),
    /// Adds one.
    Add(&'static str),
    /// Looks for one.
    Find(&'static str),
    /// Takes one away.
    Remove(&'static str),
    /// Takes all away.
    Clear,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Makes a floating IP, perhaps on a port.
    Create(Network, Port),
    /// Makes one with this body, which makes no sense.
    CreateOdd(&'static str),
    /// Binds, or frees.
    Bind(Fip, Port, Condition),
    /// Sets the description.
    Describe(Fip, &'static str, Condition),
    /// Changes with this body.
    Odd(Fip, &'static str),
    /// Deletes.
    Delete(Fip, Condition),
    /// Reads one.
    Show(Fip),
    /// Reads a port.
    ShowPort(Port),
    /// Lists with this query.
    List(&'static str),
    /// Lists those on a port.
    ListOn(Port),
    /// Lists page by page, to the end.
    Walk(u8),
    /// Does something with tags.
    Tags(Fip, Tags),
}

/// Bodies of a PUT that are odd, some of which Neutron takes.
const ODD: [&str; 13] = [
    r#"{"floatingip": {}}"#,
    r#"{"floatingip": {"status": "ACTIVE"}}"#,
    r#"{"floatingip": {"tags": ["red"]}}"#,
    r#"{"floatingip": {"revision_number": 7}}"#,
    r#"{"floatingip": {"floating_ip_address": "198.19.2.99"}}"#,
    r#"{"floatingip": {"nosuch": 1}}"#,
    r#"{"floatingip": {"port_id": 5}}"#,
    r#"{"floatingip": {"port_id": []}}"#,
    r#"{"floatingip": {"port_id": ""}}"#,
    r#"{"floatingip": {"description": null}}"#,
    r#"{"floatingip": {"fixed_ip_address": "10.92.0.11"}}"#,
    "{}",
    "{not json",
];

const CREATE_ODD: [&str; 6] = [
    "{}",
    "[]",
    r#"{"floatingip": {}}"#,
    r#"{"floatingip": {"floating_network_id": 5}}"#,
    r#"{"floatingip": {"nosuch": 1}}"#,
    "{not json",
];

/// Without case folding, which is the database's own affair.
const QUERIES: [&str; 24] = [
    "",
    "status=DOWN",
    "status=ACTIVE&status=DOWN",
    "port_id=bogus",
    "port_id=",
    "port_id=null",
    "floating_ip_address=bogus",
    "floating_ip_address=198.19.2.10&floating_ip_address=198.19.2.11",
    "nosuchfilter=1",
    "name=x",
    "limit=0",
    "limit=-1",
    "limit=abc",
    "sort_key=id",
    "sort_key=id&sort_dir=desc",
    "sort_key=floating_ip_address&sort_dir=asc",
    "fields=id&fields=status&fields=port_id",
    "revision_number=1",
    "description=one",
    "tags=red",
    "tags=red,blue",
    "tags-any=red,blue",
    "not-tags=red",
    "not-tags-any=red,blue",
];

fn of<T: Copy>(chance: &mut Chance, all: &[T]) -> Option<T> {
    let n = u64::try_from(all.len()).ok()?;
    all.get(usize::try_from(chance.pick(0..n)).ok()?).copied()
}

fn fip(chance: &mut Chance) -> Fip {
    match chance.pick(0..20) {
        0 => Fip::Unknown,
        1 => Fip::Foreign,
        2 => Fip::Malformed,
        n => Fip::Known(usize::try_from(n).unwrap_or_default()),
    }
}

fn port(chance: &mut Chance) -> Port {
    match chance.pick(0..20) {
        0 => Port::Unrouted,
        1 => Port::TwoAddresses,
        2 => Port::FirstOfTwo,
        3 => Port::WrongAddress,
        4 => Port::Unknown,
        5 => Port::Foreign,
        6 => Port::Malformed,
        7..12 => Port::Null,
        n => Port::Routed(u8::try_from(n % 3).unwrap_or_default()),
    }
}

fn condition(chance: &mut Chance) -> Condition {
    match chance.pick(0..6) {
        0 => Condition::Stale,
        1 | 2 => Condition::Current,
        _ => Condition::None,
    }
}

fn tags(chance: &mut Chance) -> Tags {
    let tag = of(chance, &["red", "blue"]).unwrap_or("red");
    let lists = [
        r#"["red", "blue"]"#,
        r#"["red", "red"]"#,
        "[]",
        r#""red""#,
        "[5]",
    ];
    match chance.pick(0..9) {
        0 => Tags::Get,
        1 | 2 => Tags::Replace(of(chance, &lists).unwrap_or("[]")),
        3..6 => Tags::Add(tag),
        6 => Tags::Find(tag),
        7 => Tags::Remove(tag),
        _ => Tags::Clear,
    }
}

/// The next call.
pub(super) fn throw(chance: &mut Chance) -> Step {
    match chance.pick(0..40) {
        0..5 => {
            let networks = [Network::External, Network::Unknown, Network::Malformed];
            let network = match chance.pick(0..8) {
                n @ 1..3 => networks[usize::try_from(n).unwrap_or_default()],
                _ => networks[0],
            };
            let port = if chance.pick(0..2) == 0 {
                Port::Null
            } else {
                port(chance)
            };
            Step::Create(network, port)
        }
        5 => Step::CreateOdd(of(chance, &CREATE_ODD).unwrap_or("{}")),
        6..17 => Step::Bind(fip(chance), port(chance), condition(chance)),
        17 | 18 => {
            let text = of(chance, &["one", "two", ""]).unwrap_or("one");
            Step::Describe(fip(chance), text, condition(chance))
        }
        19..22 => Step::Odd(fip(chance), of(chance, &ODD).unwrap_or("{}")),
        22..24 => Step::Delete(fip(chance), condition(chance)),
        24 | 25 => Step::Show(fip(chance)),
        26 => Step::ShowPort(port(chance)),
        27..32 => Step::List(of(chance, &QUERIES).unwrap_or("")),
        32 => Step::ListOn(port(chance)),
        33 => Step::Walk(u8::try_from(chance.pick(1..4)).unwrap_or(1)),
        _ => Step::Tags(fip(chance), tags(chance)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_throws_the_same_calls_and_all_kinds_of_them() {
        let thrown = |seed| {
            let mut chance = Chance::new(seed);
            (0..400).map(|_| throw(&mut chance)).collect::<Vec<_>>()
        };
        assert_eq!(thrown(7), thrown(7));
        let kinds: std::collections::BTreeSet<String> = thrown(7)
            .iter()
            .filter_map(|step| Some(format!("{step:?}").split('(').next()?.to_owned()))
            .collect();
        assert_eq!(kinds.len(), 12, "{kinds:?}");
    }
}
