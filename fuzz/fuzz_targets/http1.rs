//! Random bytes as an answer over HTTP/1.1.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| civ_checks::fuzzing::http1(bytes));
