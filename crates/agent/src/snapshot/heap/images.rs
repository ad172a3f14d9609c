//! Files that are loaded as code, and where their writable memory is: the program looks them up before it clones itself,
//! because that takes the loader's lock.

use std::ffi::{c_int, c_void};

/// Writable memory of a loaded file.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub(crate) base: usize,
    pub(crate) start: usize,
    pub(crate) length: usize,
    pub(crate) path: Vec<u8>,
}

/// More are not told of.
const MOST: usize = 8192;

/// All that are loaded now.
pub(crate) fn images() -> Vec<Image> {
    let mut images = Vec::new();
    // SAFETY: the function is called with the vector, before this returns.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut images).cast()) };
    images
}

unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, images: *mut c_void) -> c_int {
    // SAFETY: the loader passes a description of a file, and what `images` has given.
    unsafe {
        let images = &mut *images.cast::<Vec<Image>>();
        let info = &*info;
        let path = if info.dlpi_name.is_null() { &[][..] } else { std::ffi::CStr::from_ptr(info.dlpi_name).to_bytes() };
        for at in 0..info.dlpi_phnum.into() {
            let part = &*info.dlpi_phdr.add(at);
            if part.p_type == libc::PT_LOAD && part.p_flags & libc::PF_W != 0 && images.len() < MOST {
                let base = info.dlpi_addr as usize;
                let start = (base + part.p_vaddr as usize).next_multiple_of(8);
                images.push(Image { base, start, length: part.p_memsz as usize & !7, path: path.to_vec() });
            }
        }
    }
    0
}
