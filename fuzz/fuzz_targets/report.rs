//! libFuzzer on reports to a hub.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| neurogc_fuzz::check_report(bytes));
