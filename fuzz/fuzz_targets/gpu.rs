//! libFuzzer on the reader of snapshot files of PyTorch's allocator.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| neurogc_fuzz::check_gpu(bytes));
