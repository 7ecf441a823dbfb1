//! Fields that are read generously, since a slip in them must not cost a result.

use serde::{Deserialize, Deserializer};

/// A number of milliseconds, whole or not; rounded. Missing, null, negative or not finite: none.
pub(crate) fn whole_ms<'de, D: Deserializer<'de>>(input: D) -> Result<Option<i64>, D::Error> {
    let number = Option::<f64>::deserialize(input)?;
    Ok(number.filter(|ms| (0.0..=1e12).contains(ms)).map(|ms| {
        #[expect(clippy::cast_possible_truncation, reason = "0 to 1e12 fits")]
        let whole = ms.round() as i64;
        whole
    }))
}

/// A list. Null is an empty one: that is how Go writes a slice that was never filled.
pub(crate) fn list<'de, D, T>(input: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Vec<T>>::deserialize(input)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use crate::agent::{CheckResult, Results};

    #[test]
    fn milliseconds_are_rounded_and_nonsense_is_none() {
        let read = |latency: &str| {
            let text = format!(
                r#"{{"ip_id":1,"check_type":"icmp","success":true,"latency_ms":{latency}}}"#
            );
            serde_json::from_str::<CheckResult>(&text)
                .unwrap()
                .latency_ms
        };
        assert_eq!(read("87"), Some(87));
        assert_eq!(read("0.6"), Some(1));
        assert_eq!(read("-3"), None);
        assert_eq!(read("null"), None);
        assert_eq!(read("1e300"), None);
    }

    #[test]
    fn a_list_may_be_missing_or_null() {
        for text in ["{}", r#"{"results":null}"#, r#"{"results":[]}"#] {
            let read: Results = serde_json::from_str(text).unwrap();
            assert!(read.results.is_empty(), "{text}");
        }
        assert!(serde_json::from_str::<Results>(r#"{"results":{}}"#).is_err());
    }

    #[test]
    fn only_the_named_fields_are_required() {
        let text = r#"{"ip_id":1,"check_type":"icmp","success":false,"later":"field"}"#;
        assert!(serde_json::from_str::<CheckResult>(text).is_ok());
    }
}
