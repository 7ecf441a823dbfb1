//! Which queued address goes to which free validator.

use std::collections::BTreeMap;

use civ_types::{IpId, PortId, ValidatorId};

use crate::attempt::Place;

/// A queued address without an open lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The address.
    pub ip: IpId,
    /// The validator to pass over if another is free.
    pub avoid: Option<ValidatorId>,
}

/// Pairs addresses, in order of `sequence`, with free validators, in order of their names.
///
/// An address that had trouble with a validator takes another one if one is free, and that one
/// otherwise: waiting for a better one could be for ever.
#[must_use]
pub fn plan_claims(
    waiting: &[Waiting],
    free: &BTreeMap<ValidatorId, PortId>,
) -> Vec<(IpId, Place)> {
    let mut free = free.clone();
    let mut claims = Vec::new();
    for address in waiting {
        let avoided = |id: &&ValidatorId| Some(*id) == address.avoid.as_ref();
        let choice = free
            .keys()
            .find(|id| !avoided(id))
            .or_else(|| free.keys().next())
            .cloned();
        let Some((validator, port)) = choice.and_then(|id| free.remove_entry(&id)) else {
            break;
        };
        claims.push((
            address.ip,
            Place {
                validator,
                port,
                fip: None,
            },
        ));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validator(n: u8) -> ValidatorId {
        ValidatorId::parse(&format!("v{n}")).unwrap()
    }

    fn free(ids: &[u8]) -> BTreeMap<ValidatorId, PortId> {
        ids.iter()
            .map(|n| (validator(*n), PortId::parse(&format!("port-{n}")).unwrap()))
            .collect()
    }

    fn waiting(ip: i64, avoid: Option<u8>) -> Waiting {
        Waiting {
            ip: IpId(ip),
            avoid: avoid.map(validator),
        }
    }

    fn planned(queue: &[Waiting], ids: &[u8]) -> Vec<(i64, String)> {
        plan_claims(queue, &free(ids))
            .into_iter()
            .map(|(ip, place)| (ip.0, place.validator.to_string()))
            .collect()
    }

    #[test]
    fn first_come_first_served() {
        let queue = [waiting(7, None), waiting(3, None), waiting(9, None)];
        assert_eq!(
            planned(&queue, &[1, 2]),
            [(7, "v1".to_owned()), (3, "v2".to_owned())]
        );
        assert_eq!(planned(&queue, &[]), []);
    }

    #[test]
    fn another_validator_is_preferred_but_not_waited_for() {
        let queue = [waiting(7, Some(1)), waiting(3, None)];
        assert_eq!(
            planned(&queue, &[1, 2]),
            [(7, "v2".to_owned()), (3, "v1".to_owned())]
        );
        assert_eq!(planned(&queue, &[1]), [(7, "v1".to_owned())]);
    }

    /// All queues of up to three addresses and all sets of up to three validators.
    #[test]
    fn nobody_is_claimed_twice_in_any_small_world() {
        for queue_length in 0..=3_i64 {
            for avoid_bits in 0..64_u8 {
                let avoid = |i: i64| match (avoid_bits >> (2 * i)) & 3 {
                    0 => None,
                    n => Some(n),
                };
                let queue: Vec<_> = (0..queue_length).map(|i| waiting(i, avoid(i))).collect();
                for set in 0..8_u8 {
                    let ids: Vec<u8> = (1..=3).filter(|n| set & (1 << (n - 1)) != 0).collect();
                    let claims = planned(&queue, &ids);
                    assert_eq!(claims.len(), queue.len().min(ids.len()));
                    let order: Vec<_> = claims.iter().map(|(ip, _)| *ip).collect();
                    assert_eq!(order, (0..).take(claims.len()).collect::<Vec<_>>());
                    let mut who: Vec<_> = claims.iter().map(|(_, v)| v).collect();
                    who.sort();
                    who.dedup();
                    assert_eq!(who.len(), claims.len());
                }
            }
        }
    }
}
