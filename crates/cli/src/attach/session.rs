//! Having the target run one text: at which moment, in which way, and what to do when it does not come to it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::facts::TargetFacts;
use super::frame::SignalFrame;
use super::interpreter::RemotePython;
use super::main_thread::MainThread;
use super::memory::{MappedRange, TargetMemory, free_address, map_of};
use super::moment::{STACK_SEEN, ThreadActivity, judge};
use super::remote_debug::{self, DebuggerInterface};
use super::root::{TargetFolder, salt};
use super::stub::{self, PageState, StubResult};
use super::text::{AnswerPlace, TextAnswer, wrapped};
use super::tracee::{Entry, StopError, StoppedThread};

/// How long a thread may take to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(2);
/// The pause between two looks at a thread that was busy with something that must not be disturbed.
const NEXT_LOOK: Duration = Duration::from_millis(2);
/// After how long without an effect the thread is looked at again.
const WAKE_AFTER: Duration = Duration::from_millis(100);
/// How long the target may take to make or unmake a page.
const PAGE_PATIENCE: Duration = Duration::from_secs(3);
/// How long it may take to put something on its queue before it is looked at.
const ADD_PATIENCE: Duration = Duration::from_millis(30);
/// How long a queue may take to come by, after the text has been run in another way.
const QUEUE_PATIENCE: Duration = Duration::from_millis(500);
/// How much of its stack the thread needs to import and install: less than 140 KiB with what the program itself needs, on
/// every version, and as much again.
pub(super) const STACK_FOR_PYTHON: u64 = 256 * 1024;
/// How often a thread that only seldom waits is looked at before its queue is used instead.
const LOOKS_FOR_A_WAIT: u32 = 20;

const MMAP: u64 = 9;
const MUNMAP: u64 = 11;

/// How the target came to run the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttachWay {
    /// Out of the system call in which its main thread waited.
    Frame,
    /// As a pending call.
    Pending,
    /// As a pending call, and then out of a wait, because the queue did not come by.
    Woken,
    /// As a file that PEP 768 asks for.
    RemoteDebug,
}

impl AttachWay {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Frame => "frame",
            Self::Pending => "pending",
            Self::Woken => "pending+wake",
            Self::RemoteDebug => "pep768",
        }
    }
}

/// What was done to the target.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    pub(crate) way: AttachWay,
    /// None where the text ran, but could not answer: the target cannot open its own memory.
    pub(crate) answer: Option<TextAnswer>,
    pub(crate) stops: u32,
    pub(crate) longest_stop: Duration,
    pub(crate) took: Duration,
    /// A page had to be left in the target, because something still refers to it.
    pub(crate) left_page: bool,
}

/// Why a text was not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionError {
    Stop(StopError),
    /// It did not come to it in time. It will not run any more.
    Late,
    NotInitialized,
    Finalizing,
    /// No page that can be written and executed.
    NoPage,
    /// The stack of its main thread is too small or cannot be written.
    NoStack,
    /// No thread is Python's main thread: it has ended, or Python has not been started.
    NoMainThread,
    Replaced,
}

impl From<StopError> for SessionError {
    fn from(error: StopError) -> Self {
        Self::Stop(error)
    }
}

/// Memory that was there and is not: the process has ended or executes another program.
impl From<Errno> for SessionError {
    fn from(error: Errno) -> Self {
        if error == Errno::ESRCH { Self::Stop(StopError::Gone) } else { Self::Replaced }
    }
}

/// One attempt.
#[derive(Debug)]
pub(super) struct Session<'t> {
    memory: TargetMemory,
    target: &'t TargetFacts,
    python: &'t RemotePython,
    interface: Option<DebuggerInterface>,
    code: &'t str,
    main_thread: MainThread,
    /// As it was before the first stop: it is not read while a thread is stopped.
    map: Vec<MappedRange>,
    began: Instant,
    deadline: Instant,
    stops: u32,
    longest_stop: Duration,
    /// What is at the addresses that threads are sent to. Another program has something else there, or nothing.
    landmarks: Vec<(u64, Landmark)>,
}

/// The first bytes of some code.
type Landmark = [u8; 16];

impl<'t> Session<'t> {
    pub(super) fn new(
        target: &'t TargetFacts,
        python: &'t RemotePython,
        interface: Option<DebuggerInterface>,
        code: &'t str,
        patience: Duration,
    ) -> Self {
        let began = Instant::now();
        let memory = TargetMemory::of(target.pid);
        let deadline = began + patience;
        let map = map_of(target.pid).unwrap_or_default();
        let places = [python.system_call, python.signal_return, python.functions.run_text];
        // What cannot be read now cannot be recognised later.
        let landmarks = places.map(|place| (place, memory.bytes(place).unwrap_or_default())).to_vec();
        let main_thread = MainThread::new(memory, target.pid, python.runtime);
        let (stops, longest_stop) = (0, Duration::ZERO);
        Self {
            memory,
            target,
            python,
            interface,
            code,
            main_thread,
            map,
            began,
            deadline,
            stops,
            longest_stop,
            landmarks,
        }
    }

    /// Whether the process still runs the program that was looked at. Asked while its main thread is stopped: it may have
    /// executed another one at any time before.
    fn is_same_program(&self) -> bool {
        self.landmarks.iter().all(|(place, seen)| self.memory.bytes::<16>(*place).is_ok_and(|now| now == *seen))
    }

    /// Has the target run the text once.
    pub(super) fn run(mut self) -> Result<Execution, SessionError> {
        if self.target.stack_limit < STACK_FOR_PYTHON {
            return Err(SessionError::NoStack);
        }
        let Some(interface) = self.interface else { return self.by_page() };
        // What must be a file is written before the thread is stopped. Where it cannot be, the queue does as well.
        let Ok(folder) = TargetFolder::create(self.target, false) else { return self.by_page() };
        let done = self.by_remote_debug(interface, &folder);
        folder.remove();
        match done? {
            Some(execution) => Ok(execution),
            None => self.by_page(),
        }
    }

    /// By PEP 768, where the main thread runs. Nothing where it waits: then it would never look.
    fn by_remote_debug(
        &mut self,
        interface: DebuggerInterface,
        folder: &TargetFolder,
    ) -> Result<Option<Execution>, SessionError> {
        let (script, answer) = (format!("{}/run.py", folder.inside), format!("{}/answer", folder.inside));
        let text = wrapped(self.code, self.target.inner_pid, stub::LONGEST_ANSWER, &AnswerPlace::File(answer));
        let Ok(()) = folder.write(Path::new("run.py"), text.as_bytes(), 0o600) else { return Ok(None) };
        let (thread, doing) = self.stop()?;
        // The interface lies in memory that is not the program's own code, so it is looked for again. Its words are changed
        // only while the thread stands still that they belong to.
        let is_there = remote_debug::look(self.memory, self.python.runtime)?
            .is_some_and(|facts| facts.interface == Some(interface))
            && interface.is_of(self.memory, thread.registers.fs_base);
        let asked = doing != ThreadActivity::Waits && is_there && interface.request(self.memory, &script)?;
        self.let_go(thread);
        if !asked {
            return Ok(None);
        }
        let mut looked = Instant::now();
        let mut pause = Duration::from_micros(100);
        loop {
            if let Ok(text) = fs::read_to_string(folder.path().join("answer")) {
                return Ok(Some(self.execution(AttachWay::RemoteDebug, Some(TextAnswer::parse(&text)), false)));
            }
            let is_late = Instant::now() > self.deadline;
            if is_late || looked.elapsed() > WAKE_AFTER {
                looked = Instant::now();
                let (thread, doing) = self.stop()?;
                let withdrawn = (is_late || doing == ThreadActivity::Waits) && interface.withdraw(self.memory)?;
                self.let_go(thread);
                if is_late {
                    return Err(SessionError::Late);
                }
                if withdrawn {
                    return Ok(None);
                }
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
    }

    /// Through a page of our own in the target.
    fn by_page(mut self) -> Result<Execution, SessionError> {
        let page = self.map_page()?;
        let place = AnswerPlace::Memory {
            answer: page + stub::ANSWER,
            length: page + u64::from(stub::LENGTH),
            flag: page + u64::from(stub::ANSWERED),
        };
        let mut text = wrapped(self.code, self.target.inner_pid, stub::LONGEST_ANSWER, &place).into_bytes();
        text.push(0);
        debug_assert!((text.len() as u64) < stub::LONGEST_TEXT);
        let head = stub::head(page, &self.python.functions);
        self.memory.write(page, &head)?;
        self.landmarks
            .push((page + stub::CODE, head[stub::CODE as usize..].first_chunk().copied().unwrap_or_default()));
        self.memory.write(page + stub::TEXT, &text)?;
        let mut lacks_stack = false;
        let ran = match self.run_in(page, &mut lacks_stack) {
            Err(SessionError::Late) if lacks_stack => Err(SessionError::NoStack),
            ran => ran,
        };
        let answer = self.answer(page);
        // The page is left where something still leads to it: a queue that has not come by, or code that has not ended.
        let left_page = !(self.is_left_alone(page) && self.unmap_page(page));
        Ok(self.execution(ran?, answer, left_page))
    }

    /// Has the main thread run the code of the page until the text has run. Notes whether it waited where its stack had
    /// no room.
    fn run_in(&mut self, page: u64, lacks_stack: &mut bool) -> Result<AttachWay, SessionError> {
        let mut way = AttachWay::Frame;
        let mut may_run = true;
        let mut looks = 0;
        loop {
            let (thread, doing) = self.stop()?;
            let has_stack = self.has_stack_for_python(&thread);
            *lacks_stack = doing == ThreadActivity::Waits && !has_stack;
            let waits = doing == ThreadActivity::Waits && may_run && has_stack;
            let prefers_a_wait = self.interface.is_some() && !waits && may_run && looks < LOOKS_FOR_A_WAIT;
            if doing == ThreadActivity::MayHoldLock || prefers_a_wait {
                looks += 1;
                self.let_go(thread);
                self.pause_before_deadline(page, NEXT_LOOK)?;
                continue;
            }
            self.memory.write(page, &[0, 0, u8::from(waits)])?;
            let (frame, stopped) = thread.enter(&self.entry(page)).map_err(|_| SessionError::NoStack)?;
            self.count(stopped);
            match self.result(page, &frame)? {
                Some(StubResult::Ran) => return Ok(way),
                Some(StubResult::Queued) => {
                    way = if way == AttachWay::Frame { AttachWay::Pending } else { way };
                    if self.is_done_within(page, WAKE_AFTER)? {
                        return Ok(way);
                    }
                    // The next frame runs the text itself, if the thread waits by then.
                    way = self.wait_or_wake(page)?;
                    return Ok(way);
                }
                Some(StubResult::QueueFull) | None => self.pause_before_deadline(page, NEXT_LOOK)?,
                Some(StubResult::NoThreadState) => may_run = false,
                Some(StubResult::NotInitialized) => return Err(SessionError::NotInitialized),
                Some(StubResult::Finalizing) => return Err(SessionError::Finalizing),
            }
        }
    }

    /// Waits for the queue, and looks now and then whether the thread waits and could run the text at once.
    fn wait_or_wake(&mut self, page: u64) -> Result<AttachWay, SessionError> {
        loop {
            let (thread, doing) = self.stop()?;
            if doing == ThreadActivity::Waits && self.has_stack_for_python(&thread) && !self.state(page)?.is_done() {
                self.memory.write(page, &[0, 0, 1])?;
                let (frame, stopped) = thread.enter(&self.entry(page)).map_err(|_| SessionError::NoStack)?;
                self.count(stopped);
                if self.result(page, &frame)? == Some(StubResult::Ran) {
                    return Ok(AttachWay::Woken);
                }
            } else {
                self.let_go(thread);
            }
            if self.is_done_within(page, WAKE_AFTER)? {
                return Ok(AttachWay::Pending);
            }
        }
    }

    fn entry(&self, page: u64) -> Entry {
        Entry { address: page + stub::CODE, rax: 0, arguments: [0; 6], returns: None }
    }

    /// Waits for the code in the page to end. Nothing where it had to be given up: it waited for a lock that its own
    /// thread holds.
    fn result(&mut self, page: u64, frame: &SignalFrame) -> Result<Option<StubResult>, SessionError> {
        let entered = Instant::now();
        let mut pause = Duration::from_micros(50);
        loop {
            let state = self.state(page)?;
            if let Some(result) = state.result() {
                return Ok(Some(result));
            }
            // The lock of 3.13 and later keeps its waiters on their stacks: they cannot be given up, and need not be,
            // because the functions that take it are known.
            if state.is_adding() && entered.elapsed() > ADD_PATIENCE && self.python.version < 0x030d_0000 {
                let (thread, _) = self.stop()?;
                let registers = thread.registers;
                let waits_for_lock = registers.orig_rax == 202 && matches!(registers.rax.cast_signed(), -512 | -516);
                let is_below = (frame.context_at - 8192..frame.context_at).contains(&registers.rsp);
                if waits_for_lock && is_below && self.state(page)?.is_adding() {
                    let stopped = thread.abandon(frame)?;
                    self.count(stopped);
                    return Ok(None);
                }
                self.let_go(thread);
            }
            self.pause_before_deadline(page, pause)?;
            pause = (pause * 2).min(Duration::from_millis(2));
        }
    }

    fn is_done_within(&mut self, page: u64, patience: Duration) -> Result<bool, SessionError> {
        let until = Instant::now() + patience;
        let mut pause = Duration::from_micros(100);
        while Instant::now() < until {
            let state = self.state(page)?;
            if state.is_done() && state.result().is_some() {
                return Ok(true);
            }
            self.pause_before_deadline(page, pause)?;
            pause = (pause * 2).min(Duration::from_millis(5));
        }
        Ok(false)
    }

    /// Sleeps. When the time is over, the text is taken back: what is queued then does nothing.
    fn pause_before_deadline(&self, page: u64, pause: Duration) -> Result<(), SessionError> {
        if Instant::now() > self.deadline && !self.state(page)?.is_done() {
            self.memory.write(page + stub::TEXT, b"\n\0")?;
            return Err(SessionError::Late);
        }
        std::thread::sleep(pause);
        Ok(())
    }

    fn state(&self, page: u64) -> Result<PageState, Errno> {
        Ok(PageState::new(self.memory.bytes(page)?))
    }

    /// What the text has answered.
    fn answer(&self, page: u64) -> Option<TextAnswer> {
        let mut text = vec![0; self.state(page).ok()?.answer()? as usize];
        self.memory.read(page + stub::ANSWER, &mut text).ok()?;
        Some(TextAnswer::parse(&String::from_utf8_lossy(&text)))
    }

    /// Whether nothing in the target refers to the page any more, after a short wait.
    fn is_left_alone(&self, page: u64) -> bool {
        let until = Instant::now() + QUEUE_PATIENCE;
        while Instant::now() < until {
            match self.state(page) {
                Ok(state) if state.is_awaited() || state.result().is_none() => std::thread::sleep(NEXT_LOOK),
                Ok(_) => return true,
                Err(_) => return false,
            }
        }
        false
    }

    /// Has the main thread map a page at an address that we choose, so that it need not be told.
    fn map_page(&mut self) -> Result<u64, SessionError> {
        const READ_WRITE_EXECUTE: u64 = 7;
        const PRIVATE_ANONYMOUS_AT_A_FREE_PLACE: u64 = 0x22 | 0x10_0000;
        let page = free_address(&self.map, stub::PAGE, salt()).ok_or(SessionError::NoPage)?;
        let arguments = [page, stub::PAGE, READ_WRITE_EXECUTE, PRIVATE_ANONYMOUS_AT_A_FREE_PLACE, u64::MAX, 0];
        self.system_call(MMAP, arguments, None)?;
        let until = Instant::now() + PAGE_PATIENCE;
        let is_ours = |range: &MappedRange| {
            (range.start, range.end) == (page, page + stub::PAGE) && range.writable && range.executable
        };
        while Instant::now() < until {
            let map = map_of(self.target.pid).map_err(|_| StopError::Gone)?;
            if map.iter().any(is_ours) {
                return Ok(page);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Err(SessionError::NoPage)
    }

    /// Has it unmapped. False where the page had to stay.
    fn unmap_page(&mut self, page: u64) -> bool {
        self.system_call(MUNMAP, [page, stub::PAGE, 0, 0, 0, 0], Some(page)).is_ok()
    }

    /// Has the main thread make a system call in a frame of its own, when it is outside of `page`.
    fn system_call(&mut self, number: u64, arguments: [u64; 6], page: Option<u64>) -> Result<(), SessionError> {
        let until = Instant::now() + PAGE_PATIENCE;
        loop {
            let (thread, _) = self.stop()?;
            let is_inside = page.is_some_and(|page| thread.registers.rip.wrapping_sub(page) < stub::PAGE);
            if !is_inside {
                let returns = Some(self.python.signal_return);
                let entry = Entry { address: self.python.system_call, rax: number, arguments, returns };
                let (_, stopped) = thread.enter(&entry).map_err(|_| SessionError::NoStack)?;
                self.count(stopped);
                return Ok(());
            }
            self.let_go(thread);
            if Instant::now() > until {
                return Err(SessionError::Late);
            }
            std::thread::sleep(NEXT_LOOK);
        }
    }

    /// Stops the main thread outside of restartable sequences, and judges what it was doing.
    fn stop(&mut self) -> Result<(StoppedThread, ThreadActivity), SessionError> {
        loop {
            let thread = match StoppedThread::stop(self.memory, self.main_thread.tid, STOP_PATIENCE) {
                // One that was only a candidate may end at any time.
                Err(StopError::Gone) if self.main_thread.tid != self.target.pid && self.main_thread.try_next() => {
                    continue;
                }
                thread => thread?,
            };
            if !self.main_thread.is_python(thread.registers.fs_base) {
                let is_same = self.is_same_program();
                self.let_go(thread);
                match self.main_thread.try_next() {
                    _ if !is_same => return Err(SessionError::Replaced),
                    false => return Err(SessionError::NoMainThread),
                    true => continue,
                }
            }
            if thread.is_in_restartable_sequence() {
                self.let_go(thread);
                std::thread::sleep(NEXT_LOOK);
                if Instant::now() > self.deadline + PAGE_PATIENCE {
                    return Err(SessionError::Late);
                }
                continue;
            }
            if !self.is_same_program() {
                self.let_go(thread);
                return Err(SessionError::Replaced);
            }
            let registers = &thread.registers;
            let before = self.memory.bytes(registers.rip.wrapping_sub(7)).unwrap_or_default();
            let mut stack = [0; STACK_SEEN];
            let stack = if self.memory.read(registers.rsp, &mut stack).is_ok() { &stack[..] } else { &[] };
            let doing = judge(registers, before, stack, self.python);
            return Ok((thread, doing));
        }
    }

    /// Whether there is enough room below its stack pointer. The stack of the first thread grows by itself, up to its limit.
    fn has_stack_for_python(&self, thread: &StoppedThread) -> bool {
        let pointer = thread.registers.rsp;
        let lowest = |range: &MappedRange| range.end.saturating_sub(self.target.stack_limit);
        let below = |range: &MappedRange| SignalFrame::lowest(&thread.registers).saturating_sub(range.start);
        self.map.iter().any(|range| match range.name.as_str() {
            "[stack]" => pointer < range.end && pointer.saturating_sub(lowest(range)) > STACK_FOR_PYTHON,
            _ => range.contains(pointer) && below(range) > STACK_FOR_PYTHON,
        })
    }

    fn let_go(&mut self, thread: StoppedThread) {
        let stopped = thread.let_go();
        self.count(stopped);
    }

    fn count(&mut self, stopped: Duration) {
        self.stops += 1;
        self.longest_stop = self.longest_stop.max(stopped);
    }

    fn execution(&self, way: AttachWay, answer: Option<TextAnswer>, left_page: bool) -> Execution {
        let (stops, longest_stop) = (self.stops, self.longest_stop);
        Execution { way, answer, stops, longest_stop, took: self.began.elapsed(), left_page }
    }
}
