//! Fields that are read generously, since a slip in them must not cost a result.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
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

/// A whole number, however it is written: `42`, `42.0` and `4.2e1` are one and the same to JSON
/// and to its schemas, and some languages write every number with a point.
struct Whole(i64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(WholeVisitor).map(Self)
    }
}

struct WholeVisitor;

impl Visitor<'_> for WholeVisitor {
    type Value = i64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<i64, E> {
        Ok(number)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<i64, E> {
        let wrong = |_error| E::invalid_value(Unexpected::Unsigned(number), &self);
        i64::try_from(number).map_err(wrong)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<i64, E> {
        // Numbers of more than 64 bits arrive here too, rounded: those next to the limits to the
        // limits themselves, which as whole numbers arrive above. So the limits are out.
        let limit = -(i64::MIN as f64);
        if number.fract() != 0.0 || limit <= number.abs() {
            return Err(E::invalid_value(Unexpected::Float(number), &self));
        }
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 64 bits")]
        let whole = number as i64;
        Ok(whole)
    }
}

/// A field that must be a whole number.
pub(crate) fn whole<'de, D: Deserializer<'de>>(input: D) -> Result<i64, D::Error> {
    Ok(Whole::deserialize(input)?.0)
}

/// A field that may be a whole number.
pub(crate) fn maybe_whole<'de, D: Deserializer<'de>>(input: D) -> Result<Option<i64>, D::Error> {
    Ok(Option::<Whole>::deserialize(input)?.map(|whole| whole.0))
}

/// A list of whole numbers.
pub(crate) fn wholes<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<i64>, D::Error> {
    let list = Vec::<Whole>::deserialize(input)?;
    Ok(list.into_iter().map(|whole| whole.0).collect())
}

/// A list of whole numbers that may be left out.
pub(crate) fn maybe_wholes<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<Vec<i64>>, D::Error> {
    let list = Option::<Vec<Whole>>::deserialize(input)?;
    Ok(list.map(|list| list.into_iter().map(|whole| whole.0).collect()))
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
    use crate::agent::{CheckResult, Complete, Results};
    use crate::config::InboundChecksBody;

    #[test]
    fn a_whole_number_is_one_however_it_is_written() {
        let read = |ip: &str, fence: &str| {
            let text = format!(r#"{{"ip_id":{ip},"fence":{fence}}}"#);
            let read = serde_json::from_str::<Complete>(&text).ok()?;
            Some((read.ip_id, read.fence))
        };
        assert_eq!(read("42.0", "4.2e1"), Some((42, Some(42))));
        assert_eq!(read("-9223372036854775808", "null"), Some((i64::MIN, None)));
        assert_eq!(read("9223372036854775807", "0"), Some((i64::MAX, Some(0))));
        for wrong in [
            "42.5",
            "9223372036854775808",
            "-9223372036854775809",
            "1e19",
            "\"42\"",
            "null",
            "true",
        ] {
            assert_eq!(read(wrong, "1"), None, "{wrong}");
        }
        assert_eq!(read("1", "1.5"), None);
        let ports = |list: &str| {
            let text = format!(r#"{{"ports":{list},"icmp":true}}"#);
            let read = serde_json::from_str::<InboundChecksBody>(&text).ok()?;
            Some(read.ports)
        };
        assert_eq!(ports("[22.0, 443]"), Some(vec![22, 443]));
        assert_eq!(ports("[22.5]"), None);
        assert_eq!(ports("null"), None);
    }

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
