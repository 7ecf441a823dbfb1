//! Values of the command line: times, and `key=value` pairs as the JSON that the API takes.

use serde_json::{Map, Value};

use super::error::{CtlError, Result};

/// Seconds, or a number with `s`, `m` or `h`.
pub(super) fn seconds(text: &str) -> std::result::Result<u64, String> {
    let (digits, factor) = match text.chars().last() {
        Some('s') => (text.strip_suffix('s'), 1),
        Some('m') => (text.strip_suffix('m'), 60),
        Some('h') => (text.strip_suffix('h'), 3_600),
        _ => (Some(text), 1),
    };
    let number: Option<u64> = digits.and_then(|digits| digits.parse().ok());
    number
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| "must be seconds, or a time such as 90s, 30m or 2h".to_owned())
}

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A whole number.
    Number,
    /// `true` or `false`.
    Flag,
    /// Names, separated by commas.
    Names,
    /// Whole numbers, separated by commas.
    Numbers,
    /// A JSON document.
    Json,
}

/// Turns `key=value` pairs into the fields of a body. Whether a value is allowed is the server's
/// business; whether it can be written as JSON is ours.
pub(super) fn fields(pairs: &[String], keys: &[(&str, Kind)]) -> Result<Map<String, Value>> {
    let mut fields = Map::new();
    for pair in pairs {
        let known = || {
            let names: Vec<&str> = keys.iter().map(|(name, _)| *name).collect();
            names.join(", ")
        };
        let Some((key, text)) = pair.split_once('=') else {
            let text = format!("{pair:?} must be KEY=VALUE; keys: {}", known());
            return Err(CtlError::Usage(text));
        };
        let Some((_, kind)) = keys.iter().find(|(name, _)| *name == key) else {
            let text = format!("{key:?} is no key here; keys: {}", known());
            return Err(CtlError::Usage(text));
        };
        let value = value(text, *kind).ok_or_else(|| {
            let wanted = match kind {
                Kind::Number => "a whole number",
                Kind::Flag => "true or false",
                Kind::Names => "names, separated by commas",
                Kind::Numbers => "whole numbers, separated by commas",
                Kind::Json => "a JSON document",
            };
            CtlError::Usage(format!("{key}: {text:?} must be {wanted}"))
        })?;
        if fields.insert(key.to_owned(), value).is_some() {
            return Err(CtlError::Usage(format!("{key} is given twice")));
        }
    }
    Ok(fields)
}

fn value(text: &str, kind: Kind) -> Option<Value> {
    let parts = || {
        text.split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
    };
    let number = |text: &str| text.parse::<i64>().ok().map(Value::from);
    match kind {
        Kind::Number => number(text),
        Kind::Flag => text.parse::<bool>().ok().map(Value::from),
        Kind::Names => Some(parts().map(Value::from).collect()),
        Kind::Numbers => parts()
            .map(number)
            .collect::<Option<Vec<_>>>()
            .map(Value::from),
        Kind::Json => serde_json::from_str(text).ok(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_may_have_a_unit() {
        assert_eq!(seconds("90"), Ok(90));
        assert_eq!(seconds("2h"), Ok(7_200));
        assert!(seconds("h").is_err() && seconds("1d").is_err() && seconds("").is_err());
    }

    #[test]
    fn pairs_become_fields_and_slips_are_named() {
        let keys = [
            ("ports", Kind::Numbers),
            ("icmp", Kind::Flag),
            ("targets", Kind::Names),
        ];
        let read = |pairs: &[&str]| {
            let pairs: Vec<String> = pairs.iter().map(|pair| (*pair).to_owned()).collect();
            fields(&pairs, &keys)
                .map(Value::from)
                .map_err(|error| error.to_string())
        };
        let all = read(&["ports=22, 80", "icmp=false", "targets=web,dns"]);
        let expected = json!({"ports": [22, 80], "icmp": false, "targets": ["web", "dns"]});
        assert_eq!(all, Ok(expected));
        assert_eq!(read(&["ports="]), Ok(json!({"ports": []})));
        for (pair, word) in [
            ("port=1", "keys: ports, icmp, targets"),
            ("icmp", "KEY=VALUE"),
            ("icmp=on", "true or false"),
            ("ports=a", "whole numbers"),
        ] {
            let error = read(&[pair]).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        assert!(read(&["icmp=true", "icmp=true"]).is_err());
    }
}
