//! Random bytes as ICMP messages and the packets that they quote.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| civ_checks::fuzzing::icmp(bytes));
