//! Random bytes as pages of a list, whatever links they name.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| civ_cloud::fuzzing::pages(bytes));
