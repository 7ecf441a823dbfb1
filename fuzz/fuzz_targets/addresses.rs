//! Random bytes as addresses, prefixes and ranges as people type them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| civ_types::fuzzing::addresses(bytes));
