//! libFuzzer on the control socket's parser.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| neurogc_fuzz::check_control(bytes));
