//! Lets the unit tests link without an interpreter: they never call into Python, but share objects with code that does.
//! A wheel has no tests, and its linker does not know the option.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=NEUROGC_WHEEL");
    if std::env::var_os("NEUROGC_WHEEL").is_none() {
        println!("cargo:rustc-link-arg=-Wl,--unresolved-symbols=ignore-all");
    }
}
