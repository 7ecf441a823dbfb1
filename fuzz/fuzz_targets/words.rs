//! Random bytes as the small words of the contract: ids, check types, times.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| civ_types::fuzzing::words(bytes));
