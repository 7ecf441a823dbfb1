//! Random bytes as a certificate that a server shows.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| civ_checks::fuzzing::certificate(bytes));
