//! libFuzzer on the reader of heap dumps and everything behind it.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

// Most changed inputs get their checksums back: without them nothing behind the head would ever be read.
fuzz_mutator!(|bytes: &mut [u8], size: usize, most: usize, seed: u32| {
    let size = fuzzer_mutate(bytes, size, most);
    if seed % 4 != 0 {
        neurogc_fuzz::put_right(&mut bytes[..size]);
    }
    size
});

fuzz_target!(|bytes: &[u8]| neurogc_fuzz::check_heap(bytes));
