//! Random bytes as what an IP-echo service says.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| civ_checks::fuzzing::ip_echo(bytes));
