//! Random bytes as the identification of an SSH server and the start of its key exchange.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| civ_checks::fuzzing::ssh(bytes));
