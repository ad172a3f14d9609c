//! Exported symbols of a library or an executable, found in the memory of the process that has it loaded.
//!
//! No file is opened: a library that was deleted or lies in another mount namespace is read like any other.

use nix::errno::Errno;

use super::memory::TargetMemory;

/// A symbol's address and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SymbolPlace {
    pub(super) address: u64,
    pub(super) size: u64,
}

/// What an ELF file's first bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElfClass {
    Bits32,
    Bits64,
}

/// The class of the file mapped here, if it is an ELF file.
pub(super) fn class_at(memory: TargetMemory, base: u64) -> Option<ElfClass> {
    match memory.bytes::<5>(base).ok()? {
        [0x7f, b'E', b'L', b'F', 1] => Some(ElfClass::Bits32),
        [0x7f, b'E', b'L', b'F', 2] => Some(ElfClass::Bits64),
        _ => None,
    }
}

const PROGRAM_HEADER: usize = 56;
const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const STRING_TABLE: u64 = 5;
const SYMBOL_TABLE: u64 = 6;
const GNU_HASH: u64 = 0x6fff_fef5;

/// The longest program headers, dynamic section and hash chain that are believed.
const MOST_HEADERS: usize = 128;
const MOST_DYNAMIC: u64 = 64 * 1024;
const LONGEST_CHAIN: u32 = 4096;

/// A loaded module with its tables of exported symbols.
#[derive(Clone, Debug)]
pub(super) struct LoadedModule {
    memory: TargetMemory,
    pub(super) name: String,
    bias: u64,
    symbols: u64,
    strings: u64,
    hash: u64,
}

impl LoadedModule {
    /// Reads the headers of the module whose first page is mapped at `base`. None where it exports nothing.
    pub(super) fn at(memory: TargetMemory, base: u64, name: &str) -> Result<Option<Self>, Errno> {
        if class_at(memory, base) != Some(ElfClass::Bits64) {
            return Ok(None);
        }
        let header = memory.bytes::<64>(base)?;
        let count = usize::from(u16::from_le_bytes([header[56], header[57]]));
        if count > MOST_HEADERS {
            return Ok(None);
        }
        let mut headers = vec![0; count * PROGRAM_HEADER];
        memory.read(base.wrapping_add(word(&header, 32)), &mut headers)?;
        let kind = |header: &[u8]| u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let of_kind = |wanted| headers.chunks_exact(PROGRAM_HEADER).find(|header| kind(header) == wanted);
        let (Some(first), Some(dynamic)) = (of_kind(LOAD), of_kind(DYNAMIC)) else { return Ok(None) };
        let bias = base.wrapping_sub(word(first, 16) & !0xfff);
        let size = word(dynamic, 40);
        if size > MOST_DYNAMIC {
            return Ok(None);
        }
        let mut entries = vec![0; size as usize];
        memory.read(bias.wrapping_add(word(dynamic, 16)), &mut entries)?;
        // glibc has added the bias to these addresses; musl leaves them as they are in the file.
        let entry = |tag| {
            let found = entries.chunks_exact(16).find(|entry| word(entry, 0) == tag).map(|entry| word(entry, 8));
            found.map(|value| if value < bias { value.wrapping_add(bias) } else { value })
        };
        let (Some(symbols), Some(strings), Some(hash)) = (entry(SYMBOL_TABLE), entry(STRING_TABLE), entry(GNU_HASH))
        else {
            return Ok(None);
        };
        Ok(Some(Self { memory, name: name.to_owned(), bias, symbols, strings, hash }))
    }

    /// Where the module has this symbol, if it exports it.
    pub(super) fn symbol(&self, name: &str) -> Option<SymbolPlace> {
        self.look_up(name).ok().flatten()
    }

    fn look_up(&self, name: &str) -> Result<Option<SymbolPlace>, Errno> {
        let memory = self.memory;
        let hash = gnu_hash(name);
        let header = memory.bytes::<16>(self.hash)?;
        let (buckets, first, bloom) = (half(&header, 0), half(&header, 4), half(&header, 8));
        if buckets == 0 {
            return Ok(None);
        }
        let bucket_table = self.hash + 16 + 8 * u64::from(bloom);
        let chains = bucket_table + 4 * u64::from(buckets);
        let start = memory.half(bucket_table + 4 * u64::from(hash % buckets))?;
        if start < first {
            return Ok(None);
        }
        for index in start..start.saturating_add(LONGEST_CHAIN) {
            let link = memory.half(chains + 4 * u64::from(index - first))?;
            if (link | 1) == (hash | 1) {
                let symbol = memory.bytes::<24>(self.symbols + 24 * u64::from(index))?;
                let is_defined = u16::from_le_bytes([symbol[6], symbol[7]]) != 0;
                if is_defined && self.is_named(u64::from(half(&symbol, 0)), name)? {
                    let address = self.bias.wrapping_add(word(&symbol, 8));
                    return Ok(Some(SymbolPlace { address, size: word(&symbol, 16) }));
                }
            }
            if link & 1 == 1 {
                break;
            }
        }
        Ok(None)
    }

    fn is_named(&self, at: u64, name: &str) -> Result<bool, Errno> {
        let mut text = vec![0; name.len() + 1];
        self.memory.read(self.strings + at, &mut text)?;
        Ok(text.split_last() == Some((&0, name.as_bytes())))
    }
}

fn gnu_hash(name: &str) -> u32 {
    name.bytes().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|part| part.try_into().ok()).map_or(0, u32::from_le_bytes)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::attach::memory::map_of;

    #[test]
    fn symbols_of_the_c_library_are_where_this_process_has_them() {
        let memory = TargetMemory::of(std::process::id());
        let map = map_of(std::process::id()).unwrap();
        let range = map.iter().find(|range| range.offset == 0 && range.name.contains("libc.so")).unwrap();
        let module = LoadedModule::at(memory, range.start, &range.name).unwrap().unwrap();
        let getpid = nix::libc::getpid as *const () as u64;
        assert_eq!(module.symbol("getpid").map(|symbol| symbol.address), Some(getpid));
        assert_eq!(module.symbol("no_such_function_of_the_c_library"), None);
    }

    #[test]
    fn what_is_no_elf_file_is_no_module() {
        let memory = TargetMemory::of(std::process::id());
        let page = [0_u8; 4096];
        assert!(LoadedModule::at(memory, page.as_ptr() as u64, "").unwrap().is_none());
        assert!(LoadedModule::at(memory, 0, "").unwrap().is_none());
    }
}
