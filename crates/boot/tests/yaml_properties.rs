//! Properties of the strict reader: it reads what a writer of YAML wrote, and no text whatsoever
//! makes it panic.

use std::collections::BTreeMap;

use civ_boot::config::{Faults, Loaded, parse};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Raw {
    text: String,
    number: i64,
    on: bool,
    maybe: Option<String>,
    lines: Vec<String>,
    inner: Vec<Inner>,
    groups: BTreeMap<String, Vec<i64>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Inner {
    name: String,
    count: i64,
}

/// Texts that YAML has to quote in one way or another are as likely as plain ones.
fn text() -> impl Strategy<Value = String> {
    "([a-z]{0,6}|[0-9]{1,4}|true|no|~|null|[ -~]{0,12}|[a-z: #\n'\"&*!-]{0,12}|[а-я ]{0,5})"
}

fn raw() -> impl Strategy<Value = Raw> {
    let inner = (text(), any::<i64>()).prop_map(|(name, count)| Inner { name, count });
    let fields = (
        (text(), any::<i64>(), any::<bool>()),
        option::of(text()),
        vec(text(), 0..4),
        vec(inner, 0..3),
        btree_map("[a-z0-9.]{1,8}", vec(any::<i64>(), 0..3), 0..3),
    );
    fields.prop_map(|((text, number, on), maybe, lines, inner, groups)| Raw {
        text,
        number,
        on,
        maybe,
        lines,
        inner,
        groups,
    })
}

/// Words, what means something to YAML, and any other character.
const ANYTHING: &str = "([a-z0-9]{1,3}|[-:?,#&*!|>'\"%@` \n\t{}\\[\\]]|\\PC){0,60}";

fn read(text: &str) -> Result<Loaded<Raw>, Faults> {
    parse("x.yaml", text, |raw, _report| Some(raw))
}

proptest! {
    #[test]
    fn what_was_written_is_read(raw in raw()) {
        let text = serde_yaml::to_string(&raw).expect("a struct of plain types has a text");
        let loaded = read(&text);
        prop_assert!(loaded.is_ok(), "{text}\n{loaded:?}");
        prop_assert_eq!(loaded.map(|loaded| loaded.settings), Ok(raw));
    }

    #[test]
    fn no_text_makes_it_panic(text in ANYTHING) {
        match read(&text) {
            Ok(_) => {}
            Err(faults) => prop_assert!(faults.iter().count() > 0),
        }
    }

    #[test]
    fn a_damaged_file_does_not_make_it_panic(
        raw in raw(),
        cut in any::<u16>(),
        put in "\\PC{0,3}",
    ) {
        let text = serde_yaml::to_string(&raw).expect("a struct of plain types has a text");
        let mut characters: Vec<char> = text.chars().collect();
        let at = usize::from(cut) % (characters.len() + 1);
        let end = (at + 2).min(characters.len());
        characters.splice(at..end, put.chars());
        let damaged: String = characters.into_iter().collect();
        if let Err(faults) = read(&damaged) {
            prop_assert!(faults.iter().all(|fault| fault.line().is_some()));
        }
    }
}
