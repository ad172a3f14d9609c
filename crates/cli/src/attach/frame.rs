//! The frame that the kernel puts on a stack when a signal comes, made by hand: `rt_sigreturn` leads back from it.

use nix::libc::user_regs_struct;

/// Below the stack pointer a function may keep values without saying so.
const RED_ZONE: u64 = 128;

/// Results of a system call that was interrupted, as the kernel keeps them in `rax`.
const RESTARTS: std::ops::RangeInclusive<i64> = -514..=-512;
const RESTARTS_BY_BLOCK: i64 = -516;
pub(super) const INTERRUPTED: i64 = -4;

const FUTEX: i64 = 202;
pub(super) const FUTEX_WAIT_BITSET: u64 = 9;
const EPOLL_WAIT: i64 = 232;
const EPOLL_PWAIT: i64 = 281;

/// In the image of the vector registers: what the kernel leaves to software, the header, and the two magic numbers.
const SOFTWARE: usize = 464;
const HEADER: usize = 512;
const AFTER_HEADER: usize = 576;
const MAGIC_BEFORE: u32 = 0x4650_5853;
const MAGIC_BEHIND: u32 = 0x4650_5845;
/// Components of the image that a thread has only after it has asked for them (the tiles of AMX).
const ON_REQUEST: u64 = 0b11 << 17;

/// Places in `struct ucontext` of the kernel, in bytes.
pub(super) const RAX_AT: u64 = 144;
pub(super) const RIP_AT: u64 = 168;
pub(super) const MASK_AT: u64 = 296;

/// A frame, and where it belongs on the thread's stack.
#[derive(Clone, Debug)]
pub(super) struct SignalFrame {
    pub(super) context_at: u64,
    pub(super) context: Vec<u8>,
    pub(super) vectors_at: u64,
    pub(super) vectors: Vec<u8>,
    /// The vector registers as they were read.
    pub(super) plain_vectors: Vec<u8>,
    /// The signals that the thread blocks.
    pub(super) mask: u64,
    /// The registers with which the thread goes on behind it.
    pub(super) leads_to: user_regs_struct,
}

impl SignalFrame {
    /// A frame below the stack pointer of a thread in this state. `component` gives the place of a part of the vectors.
    pub(super) fn new(
        registers: &user_regs_struct,
        mask: u64,
        vectors: Vec<u8>,
        component: impl Fn(u32) -> (usize, usize),
    ) -> Option<Self> {
        let image = image(&vectors, component)?;
        let vectors_at = (registers.rsp - RED_ZONE - image.len() as u64) & !63;
        let leads_to = resumed(registers);
        let context = context(&leads_to, mask, vectors_at);
        let context_at = (vectors_at - context.len() as u64) & !15;
        Some(Self { context_at, context, vectors_at, vectors: image, plain_vectors: vectors, mask, leads_to })
    }

    /// How much of the stack it needs.
    pub(super) fn lowest(registers: &user_regs_struct) -> u64 {
        registers.rsp.saturating_sub(16 * 1024)
    }
}

/// `struct ucontext` of the kernel.
fn context(registers: &user_regs_struct, mask: u64, vectors_at: u64) -> Vec<u8> {
    let it = registers;
    // Extended vectors, and a stack segment to be restored as it is.
    const FLAGS: u64 = 0b111;
    // Flags of the alternate stack that no kernel accepts: the thread keeps the one it has.
    const KEEP_STACK: [u64; 3] = [0, 0xff, 0];
    let segments = (it.cs & 0xffff) | ((it.ss & 0xffff) << 48);
    let general = [
        it.r8, it.r9, it.r10, it.r11, it.r12, it.r13, it.r14, it.r15, it.rdi, it.rsi, it.rbp, it.rbx, it.rdx, it.rax,
        it.rcx, it.rsp, it.rip, it.eflags, segments,
    ];
    let behind = [0, 0, 0, 0, vectors_at, 0, 0, 0, 0, 0, 0, 0, 0, mask];
    let words = [FLAGS, 0].into_iter().chain(KEEP_STACK).chain(general).chain(behind);
    words.flat_map(u64::to_le_bytes).collect()
}

/// The image of the vector registers in the form that it has in a signal frame. It ends behind the last component that
/// the thread has: the kernel takes a longer one for an old, short one.
fn image(vectors: &[u8], component: impl Fn(u32) -> (usize, usize)) -> Option<Vec<u8>> {
    let word = |at: usize| Some(u64::from_le_bytes(vectors.get(at..at + 8)?.try_into().ok()?));
    let features = word(SOFTWARE)?;
    let in_use = word(HEADER)?;
    let features = if in_use & ON_REQUEST == 0 { features & !ON_REQUEST } else { features };
    let ends = (2..63).filter(|bit| features & (1 << bit) != 0).map(|bit| {
        let (at, size) = component(bit);
        at + size
    });
    let length = ends.max().unwrap_or(AFTER_HEADER).max(AFTER_HEADER);
    let mut image = vectors.get(..length)?.to_vec();
    image[SOFTWARE..HEADER].fill(0);
    let length = u32::try_from(length).ok()?;
    image[SOFTWARE..SOFTWARE + 4].copy_from_slice(&MAGIC_BEFORE.to_le_bytes());
    image[SOFTWARE + 4..SOFTWARE + 8].copy_from_slice(&(length + 4).to_le_bytes());
    image[SOFTWARE + 8..SOFTWARE + 16].copy_from_slice(&features.to_le_bytes());
    image[SOFTWARE + 16..SOFTWARE + 20].copy_from_slice(&length.to_le_bytes());
    image.extend(MAGIC_BEHIND.to_le_bytes());
    Some(image)
}

/// Where the processor keeps a component of the vector registers: its place and its size.
pub(super) fn component(bit: u32) -> (usize, usize) {
    let leaf = std::arch::x86_64::__cpuid_count(0xd, bit);
    (leaf.ebx as usize, leaf.eax as usize)
}

/// How a thread goes on that was stopped in this state, where something ran in between. A system call is entered again
/// as the kernel would do it, or ends with `EINTR` as after any signal handler.
fn resumed(registers: &user_regs_struct) -> user_regs_struct {
    if let Some(registers) = entered_again(registers) {
        return registers;
    }
    let mut after = *registers;
    match registers.rax.cast_signed() {
        result if RESTARTS.contains(&result) && is_in_call(registers) => enter_again(&mut after),
        RESTARTS_BY_BLOCK if is_in_call(registers) => after.rax = INTERRUPTED as u64,
        _ => {}
    }
    after
}

/// The registers with which a call begins anew that would otherwise end early, although nothing has happened.
pub(super) fn entered_again(registers: &user_regs_struct) -> Option<user_regs_struct> {
    let again = match (registers.orig_rax.cast_signed(), registers.rax.cast_signed()) {
        // It has an absolute time, so that it may be entered as often as one likes.
        (FUTEX, RESTARTS_BY_BLOCK) => registers.rsi & 0x7f == FUTEX_WAIT_BITSET,
        // It knows no restart; with an endless timeout that makes no difference.
        (EPOLL_WAIT | EPOLL_PWAIT, INTERRUPTED) => registers.r10 as i32 == -1,
        _ => false,
    };
    let mut after = *registers;
    enter_again(&mut after);
    again.then_some(after)
}

fn enter_again(registers: &mut user_regs_struct) {
    const LENGTH_OF_SYSCALL: u64 = 2;
    registers.rip = registers.rip.wrapping_sub(LENGTH_OF_SYSCALL);
    registers.rax = registers.orig_rax;
}

fn is_in_call(registers: &user_regs_struct) -> bool {
    registers.orig_rax.cast_signed() >= 0
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn registers(call: i64, result: i64) -> user_regs_struct {
        // SAFETY: the struct consists of integers, for which zero is a value.
        let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
        (registers.orig_rax, registers.rax) = (call as u64, result as u64);
        (registers.rip, registers.rsp) = (0x1002, 0x7fff_0000_1238);
        registers
    }

    fn vectors(features: u64, in_use: u64, length: usize) -> Vec<u8> {
        let mut vectors = vec![7; length];
        vectors[SOFTWARE..SOFTWARE + 8].copy_from_slice(&features.to_le_bytes());
        vectors[HEADER..HEADER + 8].copy_from_slice(&in_use.to_le_bytes());
        vectors
    }

    /// AVX behind the header, then protection keys, then the tiles.
    fn places(bit: u32) -> (usize, usize) {
        match bit {
            2 => (576, 256),
            9 => (2688, 8),
            17 => (2752, 64),
            18 => (2816, 8192),
            _ => (0, 0),
        }
    }

    #[test]
    fn a_call_goes_on_as_the_kernel_would_have_it() {
        let after = |registers| {
            let after = resumed(&registers);
            (after.rip, after.rax.cast_signed())
        };
        assert_eq!(after(registers(0, -512)), (0x1000, 0), "read is entered again");
        assert_eq!(after(registers(230, -516)), (0x1002, INTERRUPTED), "a sleep is told");
        let mut futex = registers(FUTEX, -516);
        futex.rsi = 0x80 | FUTEX_WAIT_BITSET;
        assert_eq!(after(futex), (0x1000, FUTEX), "a wait with an absolute time is entered again");
        let mut epoll = registers(EPOLL_WAIT, INTERRUPTED);
        epoll.r10 = u64::from(u32::MAX);
        assert_eq!(after(epoll), (0x1000, EPOLL_WAIT));
        epoll.r10 = 50;
        assert_eq!(after(epoll), (0x1002, INTERRUPTED));
        assert_eq!(after(registers(-1, -512)), (0x1002, -512), "a number outside a call is left alone");
        assert_eq!(after(registers(0, 17)), (0x1002, 17));
    }

    #[test]
    fn the_frame_lies_below_the_red_zone_and_is_aligned() {
        let registers = registers(-1, 77);
        let frame = SignalFrame::new(&registers, 5, vectors(0b111, 0b11, 11008), places).unwrap();
        assert_eq!((frame.vectors_at % 64, frame.context_at % 16), (0, 0));
        assert!(frame.vectors_at + frame.vectors.len() as u64 <= registers.rsp - RED_ZONE);
        assert!(frame.context_at + frame.context.len() as u64 <= frame.vectors_at);
        assert!(frame.context_at > SignalFrame::lowest(&registers));
        assert_eq!(frame.context.len(), 304);
        let at = |place: u64| frame.context[place as usize..].first_chunk::<8>().copied().map(u64::from_le_bytes);
        assert_eq!((at(RIP_AT), at(MASK_AT), at(RAX_AT)), (Some(registers.rip), Some(5), Some(registers.rax)));
        assert_eq!(frame.context.last_chunk::<8>(), Some(&5_u64.to_le_bytes()));
    }

    #[test]
    fn tiles_that_are_not_in_use_are_left_out_of_the_image() {
        let features = 0b111 | (1 << 9) | ON_REQUEST;
        let plain = image(&vectors(features, 0b111, 11008), places).unwrap();
        assert_eq!(plain.len(), 2696 + 4);
        assert_eq!(plain[SOFTWARE + 8..SOFTWARE + 16], (features & !ON_REQUEST).to_le_bytes());
        let tiles = image(&vectors(features, 0b111 | (1 << 18), 11008), places).unwrap();
        assert_eq!(tiles.len(), 11008 + 4);
        assert!(image(&[0; 100], places).is_none());
    }
}
