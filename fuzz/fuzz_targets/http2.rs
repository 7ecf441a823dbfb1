//! Random bytes as an answer over HTTP/2.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| civ_checks::fuzzing::http2(bytes));
