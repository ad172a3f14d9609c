//! The code that a thread of the target runs in a page of its own, and the layout of that page.
//!
//! The thread comes here through a signal frame and leaves by `rt_sigreturn`. Everything that must not be left half done
//! is done by the target itself, so nothing depends on the command that has put the code there.

use super::frame;
use super::interpreter::PythonFunctions;

/// The size of the page, and where its parts are.
pub(super) const PAGE: u64 = 64 * 1024;
const MASK: u64 = 0x10;
const MASK_BEFORE: u64 = 0x18;
const EXCEPTION: u64 = 0x20;
const PENDING: u64 = 0x38;
const TABLE: u64 = 0x40;
pub(super) const CODE: u64 = 0x200;
pub(super) const ANSWER: u64 = 0x400;
pub(super) const LONGEST_ANSWER: u64 = 0x1b00;
pub(super) const TEXT: u64 = 0x2000;
pub(super) const LONGEST_TEXT: u64 = PAGE - TEXT;

/// The page's first bytes. The target writes them, except for `MAY_RUN`.
const RESULT: u8 = 0;
const STAGE: u8 = 1;
/// Set before the code is entered: the thread was seen waiting.
pub(super) const MAY_RUN: u8 = 2;
const DONE: u8 = 3;
const TAKEN: u8 = 4;
const QUEUED: u8 = 5;
const SERVED: u8 = 6;
/// Set by the text, when its answer is in the page with its length.
pub(super) const ANSWERED: u8 = 7;
pub(super) const LENGTH: u8 = 8;

const STAGE_ADDING: u8 = 2;

/// Signals that are not held back while the text runs: those that the thread causes itself (ILL, TRAP, ABRT, BUS, FPE,
/// SEGV, SYS).
const OWN_SIGNALS: [u32; 7] = [4, 5, 6, 7, 8, 11, 31];

/// The signals that wait while a thread is in a frame of ours, as a mask.
pub(super) fn held_back() -> u64 {
    OWN_SIGNALS.iter().fold(u64::MAX, |mask, signal| mask & !(1 << (signal - 1)))
}

/// How the code ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StubResult {
    Ran,
    Queued,
    QueueFull,
    NotInitialized,
    Finalizing,
    /// The thread has never run Python, so that nothing can be run in it.
    NoThreadState,
}

impl StubResult {
    const ALL: [Self; 6] =
        [Self::Ran, Self::Queued, Self::QueueFull, Self::NotInitialized, Self::Finalizing, Self::NoThreadState];

    /// What it is in the page; zero means that the code has not ended.
    fn code(self) -> u8 {
        self as u8 + 1
    }
}

/// What the first bytes of the page say.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageState([u8; 16]);

impl PageState {
    pub(super) fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    fn is_set(&self, at: u8) -> bool {
        self.0[usize::from(at)] != 0
    }

    pub(super) fn result(&self) -> Option<StubResult> {
        StubResult::ALL.into_iter().find(|result| result.code() == self.0[usize::from(RESULT)])
    }

    /// The text has run.
    pub(super) fn is_done(&self) -> bool {
        self.is_set(DONE)
    }

    /// It has been put on the queue, and the queue has not come to it: the page is still needed.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_set(QUEUED) && !self.is_set(SERVED)
    }

    /// It is on its way onto the queue.
    pub(super) fn is_adding(&self) -> bool {
        self.0[usize::from(STAGE)] == STAGE_ADDING && self.result().is_none()
    }

    /// The length of the answer, where there is one.
    pub(super) fn answer(&self) -> Option<u64> {
        let length = u64::from_le_bytes(self.0[8..].try_into().ok()?);
        self.is_set(ANSWERED).then_some(length.min(LONGEST_ANSWER))
    }
}

/// The functions in the order of the table.
#[derive(Clone, Copy, Debug)]
enum Called {
    Errno,
    IsInitialized,
    IsFinalizing,
    OwnState,
    CurrentState,
    Ensure,
    Fetch,
    RunText,
    Restore,
    Release,
    AddPending,
}

/// Everything of the page before the answer: zeros, masks, the table and the code.
pub(super) fn head(page: u64, functions: &PythonFunctions) -> Vec<u8> {
    let mut head = vec![0; CODE as usize];
    put(&mut head, MASK, held_back());
    let table = [
        functions.errno_location,
        functions.is_initialized,
        functions.is_finalizing,
        functions.own_state,
        functions.current_state,
        functions.ensure,
        functions.fetch,
        functions.run_text,
        functions.restore,
        functions.release,
        functions.add_pending,
    ];
    for (index, function) in table.into_iter().enumerate() {
        put(&mut head, TABLE + 8 * index as u64, function);
    }
    head.extend(code(page, functions.is_finalizing != 0));
    debug_assert!(head.len() < ANSWER as usize);
    head
}

fn put(page: &mut [u8], at: u64, word: u64) {
    page[at as usize..at as usize + 8].copy_from_slice(&word.to_le_bytes());
}

/// Instructions with jumps whose goals are named.
#[derive(Debug, Default)]
struct Code {
    bytes: Vec<u8>,
    goals: Vec<(&'static str, usize)>,
    jumps: Vec<(&'static str, usize)>,
}

impl Code {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    fn add_with(&mut self, bytes: &[u8], offset: u64) {
        self.add(bytes);
        self.bytes.extend((offset as u32).to_le_bytes());
    }

    /// `call *TABLE+8*function(%rbx)`
    fn call(&mut self, function: Called) {
        self.add_with(&[0xff, 0x93], TABLE + 8 * function as u64);
    }

    /// `movb $value, at(%rbx)`
    fn set(&mut self, at: u8, value: u8) {
        self.add(&[0xc6, 0x43, at, value]);
    }

    /// `cmpb $0, at(%rbx)`
    fn compare(&mut self, at: u8) {
        self.add(&[0x80, 0x7b, at, 0]);
    }

    fn goal(&mut self, name: &'static str) {
        self.goals.push((name, self.bytes.len()));
    }

    /// A jump of this kind (`jmp` is 0xe9, others have two bytes).
    fn jump(&mut self, kind: &[u8], to: &'static str) {
        self.add_with(kind, 0);
        self.jumps.push((to, self.bytes.len()));
    }

    fn end_with(&mut self, result: StubResult) {
        self.set(RESULT, result.code());
        self.jump(&[0xe9], "out");
    }

    fn finish(mut self) -> Vec<u8> {
        for (name, behind) in &self.jumps {
            let goal = self.goals.iter().find(|(goal, _)| goal == name).map_or(0, |(_, at)| *at);
            let distance = goal.wrapping_sub(*behind) as u32;
            self.bytes[behind - 4..*behind].copy_from_slice(&distance.to_le_bytes());
        }
        self.bytes
    }
}

const IF_EQUAL: &[u8] = &[0x0f, 0x84];
const IF_DIFFERENT: &[u8] = &[0x0f, 0x85];
const CALL: &[u8] = &[0xe8];

fn code(page: u64, knows_the_end: bool) -> Vec<u8> {
    let mut code = Code::default();
    // %rbx: the page. %r13, %r14: where errno is, and what it was.
    code.add(&[0x48, 0xbb]);
    code.add(&page.to_le_bytes());
    code.call(Called::Errno);
    code.add(&[0x49, 0x89, 0xc5]); // mov %rax, %r13
    code.add(&[0x44, 0x8b, 0x30]); // mov (%rax), %r14d
    code.set(STAGE, 1);
    code.call(Called::IsInitialized);
    code.add(&[0x85, 0xc0]); // test %eax, %eax
    code.jump(IF_EQUAL, "not initialized");
    if knows_the_end {
        code.call(Called::IsFinalizing);
        code.add(&[0x85, 0xc0]);
        code.jump(IF_DIFFERENT, "finalizing");
    }
    code.compare(MAY_RUN);
    code.jump(IF_EQUAL, "queue");
    // A thread that waits and is not the one with the GIL has released it.
    code.call(Called::OwnState);
    code.add(&[0x48, 0x85, 0xc0]); // test %rax, %rax
    code.jump(IF_EQUAL, "no state");
    code.add(&[0x49, 0x89, 0xc4]); // mov %rax, %r12
    code.call(Called::CurrentState);
    code.add(&[0x4c, 0x39, 0xe0]); // cmp %r12, %rax
    code.jump(IF_EQUAL, "queue");

    code.call(Called::Ensure);
    code.add(&[0x41, 0x89, 0xc4]); // mov %eax, %r12d
    // An exception that is on its way is put aside: lea EXCEPTION(%rbx), %rdi and so on.
    for (register, at) in [(0xbb, 0), (0xb3, 8), (0x93, 16)] {
        code.add_with(&[0x48, 0x8d, register], EXCEPTION + at);
    }
    code.call(Called::Fetch);
    code.jump(CALL, "text");
    for (register, at) in [(0xbb, 0), (0xb3, 8), (0x93, 16)] {
        code.add_with(&[0x48, 0x8b, register], EXCEPTION + at);
    }
    code.call(Called::Restore);
    code.add(&[0x44, 0x89, 0xe7]); // mov %r12d, %edi
    code.call(Called::Release);
    code.end_with(StubResult::Ran);

    code.goal("queue");
    code.compare(QUEUED);
    code.jump(IF_DIFFERENT, "queued");
    code.set(STAGE, STAGE_ADDING);
    code.add(&[0x48, 0x8d, 0x3d]); // lea pending(%rip), %rdi
    code.bytes.extend([0; 4]);
    let place = code.bytes.len();
    code.jumps.push(("pending", place));
    code.add(&[0x48, 0x89, 0xde]); // mov %rbx, %rsi
    code.call(Called::AddPending);
    code.add(&[0x85, 0xc0]);
    code.jump(IF_DIFFERENT, "full");
    code.set(QUEUED, 1);
    code.goal("queued");
    code.end_with(StubResult::Queued);
    for (name, result) in [
        ("full", StubResult::QueueFull),
        ("not initialized", StubResult::NotInitialized),
        ("finalizing", StubResult::Finalizing),
        ("no state", StubResult::NoThreadState),
    ] {
        code.goal(name);
        code.end_with(result);
    }
    code.goal("out");
    code.add(&[0x45, 0x89, 0x75, 0x00]); // mov %r14d, (%r13)
    interrupt_the_wait(&mut code);
    code.goal("leave");
    code.add(&[0xb8, 15, 0, 0, 0, 0x0f, 0x05]); // rt_sigreturn

    // int pending(void *page)
    code.goal("pending");
    code.add(&[0x53]); // push %rbx
    code.add(&[0x48, 0x89, 0xfb]); // mov %rdi, %rbx
    code.jump(CALL, "text");
    code.set(SERVED, 1);
    code.add(&[0x31, 0xc0, 0x5b, 0xc3]); // xor %eax, %eax; pop %rbx; ret

    // Runs the text, unless it has been run. Other signals wait meanwhile: a handler in Python would run inside it.
    code.goal("text");
    code.compare(TAKEN);
    code.jump(IF_DIFFERENT, "taken");
    code.set(TAKEN, 1);
    code.add(&[0x48, 0x83, 0xec, 8]); // sub $8, %rsp
    code.add_with(&[0x48, 0x8d, 0xb3], MASK); // lea MASK(%rbx), %rsi
    code.add_with(&[0x48, 0x8d, 0x93], MASK_BEFORE); // lea MASK_BEFORE(%rbx), %rdx
    set_mask(&mut code);
    code.add_with(&[0x48, 0x8d, 0xbb], TEXT); // lea TEXT(%rbx), %rdi
    code.call(Called::RunText);
    code.add_with(&[0x48, 0x8d, 0xb3], MASK_BEFORE);
    code.add(&[0x31, 0xd2]); // xor %edx, %edx
    set_mask(&mut code);
    code.set(DONE, 1);
    code.add(&[0x48, 0x83, 0xc4, 8]); // add $8, %rsp
    code.goal("taken");
    code.add(&[0xc3]);
    code.finish()
}

/// A signal that has come meanwhile is handled when the thread leaves the frame, before it would enter its system call
/// again. So the call ends with `EINTR`, as it would have without the frame: Python then runs its handlers.
fn interrupt_the_wait(code: &mut Code) {
    code.compare(MAY_RUN);
    code.jump(IF_EQUAL, "leave");
    code.add_with(&[0x48, 0x8d, 0xbb], PENDING); // lea PENDING(%rbx), %rdi
    code.add(&[0xbe, 8, 0, 0, 0]); // mov $8, %esi
    code.add(&[0xb8, 127, 0, 0, 0, 0x0f, 0x05]); // rt_sigpending
    code.add_with(&[0x48, 0x8b, 0x84, 0x24], frame::MASK_AT); // mov MASK_AT(%rsp), %rax
    code.add(&[0x48, 0xf7, 0xd0]); // not %rax
    code.add_with(&[0x48, 0x23, 0x83], PENDING); // and PENDING(%rbx), %rax
    code.jump(IF_EQUAL, "leave");
    code.add_with(&[0x48, 0x8b, 0x84, 0x24], frame::RIP_AT); // mov RIP_AT(%rsp), %rax
    code.add(&[0x66, 0x81, 0x38, 0x0f, 0x05]); // cmpw $SYSCALL, (%rax)
    code.jump(IF_DIFFERENT, "leave");
    code.add_with(&[0x48, 0x83, 0x84, 0x24], frame::RIP_AT); // addq $2, RIP_AT(%rsp)
    code.add(&[2]);
    code.add_with(&[0x48, 0xc7, 0x84, 0x24], frame::RAX_AT); // movq $-EINTR, RAX_AT(%rsp)
    code.add(&(frame::INTERRUPTED as i32).to_le_bytes());
}

/// `rt_sigprocmask(SIG_SETMASK, %rsi, %rdx, 8)`
fn set_mask(code: &mut Code) {
    code.add(&[0xbf, 2, 0, 0, 0]);
    code.add(&[0x41, 0xba, 8, 0, 0, 0]);
    code.add(&[0xb8, 14, 0, 0, 0, 0x0f, 0x05]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_fits_and_every_jump_has_a_goal() {
        for knows_the_end in [false, true] {
            let code = code(0x7000_0000_0000, knows_the_end);
            assert!(code.len() < (ANSWER - CODE) as usize, "{} bytes", code.len());
            assert_eq!(code.last(), Some(&0xc3));
        }
    }

    #[test]
    fn a_new_page_says_nothing() {
        let state = PageState::new([0; 16]);
        assert_eq!((state.result(), state.answer()), (None, None));
        assert!(!state.is_done() && !state.is_awaited() && !state.is_adding());
    }

    #[test]
    fn an_answer_is_not_longer_than_its_place() {
        let mut bytes = [0xff; 16];
        bytes[0] = StubResult::NoThreadState.code();
        let state = PageState::new(bytes);
        assert_eq!(state.answer(), Some(LONGEST_ANSWER));
        assert_eq!(state.result(), Some(StubResult::NoThreadState));
    }
}
