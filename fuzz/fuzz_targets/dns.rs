//! Random bytes as a DNS message.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| civ_checks::fuzzing::dns(bytes));
