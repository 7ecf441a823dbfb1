//! Random bytes as what Keystone and Neutron answer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| civ_cloud::fuzzing::cloud_answers(bytes));
