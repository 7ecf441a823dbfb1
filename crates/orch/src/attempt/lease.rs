//! The one value that stands for "a floating IP is, or may be, on one of our ports".

use civ_types::{ClaimNo, FipId, PortId, ValidatorId};

use super::effect::Effect;

/// Which validator holds an address, through which port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The validator that claimed.
    pub validator: ValidatorId,
    /// Its port at that moment; a lease keeps it, whatever happens to the validator's entry.
    pub port: PortId,
    /// The floating IP; `None` until the cloud was asked for it.
    pub fip: Option<FipId>,
}

/// A floating IP that is, or may be, associated with one of our ports.
///
/// Neither `Clone` nor buildable outside of the machine: whoever ends an attempt must turn it
/// into an effect.
///
/// ```
/// fn one(lease: civ_orch::attempt::Lease) -> civ_orch::attempt::Lease { lease }
/// ```
/// ```compile_fail
/// fn two(lease: civ_orch::attempt::Lease) -> civ_orch::attempt::Lease { lease.clone() }
/// ```
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a lease that is dropped is a leaked address"]
pub struct Lease {
    claim: ClaimNo,
    place: Place,
}

impl Lease {
    pub(super) const fn new(claim: ClaimNo, place: Place) -> Self {
        Self { claim, place }
    }

    /// The claim that made it.
    #[must_use]
    pub const fn claim(&self) -> ClaimNo {
        self.claim
    }

    /// Who holds it.
    #[must_use]
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// To be disassociated, if it is still on our port; then the lease is over.
    pub(super) const fn release(self) -> Effect {
        Effect::Release(self)
    }

    /// The cloud said that it was never ours, or is no longer: nothing to disassociate.
    pub(super) const fn forget(self) -> Effect {
        Effect::Forget(self)
    }

    pub(super) fn learn(&mut self, fip: &FipId) {
        self.place.fip = Some(fip.clone());
    }
}
