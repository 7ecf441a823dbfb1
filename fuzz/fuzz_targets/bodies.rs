//! Random bytes as bodies that agents and probers send.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| civ_proto::fuzzing::bodies(bytes));
