//! Whether a self-check report proves that traffic leaves through the address.

use civ_types::Address;

/// A judged self-check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfCheck {
    /// Traffic leaves through the address.
    pub passed: bool,
    /// What there is to tell.
    pub detail: String,
}

/// Judges a report: the agent's word, unless what it detected contradicts it.
///
/// A `success` whose detected address is another one, or none at all that could be read, is a
/// failed self-check: a false pass would reach a customer. Without a detected address the agent's
/// word stands, as the contract allows.
#[must_use]
pub fn judge(address: Address, success: bool, detected: Option<&str>, detail: &str) -> SelfCheck {
    let detected = detected.map(str::trim).filter(|text| !text.is_empty());
    let other = match detected.map(Address::parse) {
        Some(Ok(seen)) if seen == address || civ_planted::is!(OtherAddressPasses) => None,
        Some(Ok(seen)) => Some(format!(
            "traffic leaves through {seen}, not through {address}"
        )),
        Some(Err(error)) => Some(format!("the detected address: {error}")),
        None => None,
    };
    match (success, other) {
        (true, None) => SelfCheck {
            passed: true,
            detail: detail.to_owned(),
        },
        (true, Some(why)) => SelfCheck {
            passed: false,
            detail: why,
        },
        (false, Some(why)) => SelfCheck {
            passed: false,
            detail: format!("{detail} ({why})"),
        },
        (false, None) => SelfCheck {
            passed: false,
            detail: detail.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_success_through_another_address_has_failed() {
        let address = Address::parse("203.0.113.10").unwrap();
        let passed = |success, detected| judge(address, success, detected, "").passed;
        assert!(passed(true, Some("203.0.113.10")));
        assert!(passed(true, Some(" 203.0.113.10\n")));
        assert!(passed(true, None));
        assert!(passed(true, Some("")));
        assert!(!passed(true, Some("203.0.113.11")));
        assert!(!passed(true, Some("captcha")));
        assert!(!passed(false, Some("203.0.113.10")));
    }
}
