//! Random bytes as the records with which a TLS server begins.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| civ_checks::fuzzing::tls_hello(bytes));
