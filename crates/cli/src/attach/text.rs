//! The Python text that the target runs: it raises nothing, prints nothing and leaves no name behind.

/// Where the text leaves its answer.
#[derive(Clone, Debug)]
pub(super) enum AnswerPlace {
    /// In the process's own memory: the answer, its length, and a byte that says that both are there.
    Memory { answer: u64, length: u64, flag: u64 },
    /// In a file that is renamed to this path when it is whole.
    File(String),
}

/// Which signal's handler has raised an exception, if any did: the handler is the program's, and so is the exception. The
/// signal is sent again then; it waits, as all signals do while the text runs, and the handler runs in the program.
const SIGNAL_OF: &str = "\
def number(e):
 c = []
 t = e.__traceback__
 while t:
  c.append(t.tb_frame.f_code)
  t = t.tb_next
 for n in range(1, 65):
  try:
   f = s.getsignal(n)
  except ValueError:
   continue
  if getattr(getattr(f, '__func__', f), '__code__', None) in c:
   return n
 return s.SIGINT if isinstance(e, KeyboardInterrupt) else 0
";

/// Wraps code that sets `answer`. Only modules that are part of the interpreter are used: others may be half imported. It runs only
/// in the process it is meant for: a fork inherits what is queued. While the thread takes the lock of a module, it must import
/// nothing: before CPython 3.12 the import that it interrupts would fail.
pub(super) fn wrapped(code: &str, pid: u32, longest: u64, place: &AnswerPlace) -> String {
    let inner = format!(
        "import posix as o, _signal as s, _thread as t, sys\n\
         {SIGNAL_OF}\
         if o.getpid() == {pid}:\n \
             g = {{'__name__': '_neurogc_attach'}}\n \
             try:\n  \
                 if getattr(getattr(sys.modules.get('os'), '__spec__', None), '_initializing', False):\n   \
                     m = 'again\\nPython is starting'\n  \
                 elif getattr(sys.modules.get('_frozen_importlib'), '_blocking_on', {{}}).get(t.get_ident()):\n   \
                     m = 'again\\nthe main thread takes the lock of a module'\n  \
                 else:\n   \
                     exec({code}, g)\n   \
                     m = 'ok\\n' + g['answer']\n \
             except (RecursionError, MemoryError) as e:\n  \
                 m = 'again\\n%s: %s' % (type(e).__name__, e)\n \
             except BaseException as e:\n  \
                 n = number(e)\n  \
                 if n:\n   \
                     s.raise_signal(n)\n   \
                     m = 'again\\nthe program was interrupted at that moment'\n  \
                 else:\n   \
                     m = 'error\\n%s: %s' % (type(e).__name__, e)\n \
             m = m.encode('utf-8', 'replace')[:{longest}]\n{told}",
        code = literal(code),
        told = told(place),
    );
    // No name of `__main__` is used: the program may have another `exec` there.
    format!("(lambda: 0).__builtins__['exec']({}, {{}})\n", literal(&inner))
}

fn told(place: &AnswerPlace) -> String {
    match place {
        AnswerPlace::Memory { answer, length, flag } => format!(
            " try:\n  \
                 f = o.open('/proc/self/mem', o.O_RDWR | o.O_CLOEXEC)\n  \
                 try:\n   \
                     o.pwrite(f, m, {answer})\n   \
                     o.pwrite(f, len(m).to_bytes(8, 'little'), {length})\n   \
                     o.pwrite(f, b'\\1', {flag})\n  \
                 finally:\n   \
                     o.close(f)\n \
             except OSError:\n  \
                 pass\n"
        ),
        AnswerPlace::File(path) => {
            let (path, part) = (literal(path), literal(&format!("{path}.part")));
            format!(
                " try:\n  \
                     f = o.open({part}, o.O_WRONLY | o.O_CREAT | o.O_EXCL | o.O_CLOEXEC, 0o600)\n  \
                     try:\n   \
                         o.write(f, m)\n  \
                     finally:\n   \
                         o.close(f)\n  \
                     o.rename({part}, {path})\n \
                 except OSError:\n  \
                     pass\n"
            )
        }
    }
}

/// A text as Python writes it, in ASCII and on one line.
pub(crate) fn literal(text: &str) -> String {
    let mut written = String::with_capacity(text.len() + 2);
    written.push('\'');
    for letter in text.chars() {
        match letter {
            '\\' => written.push_str("\\\\"),
            '\'' => written.push_str("\\'"),
            '\n' => written.push_str("\\n"),
            ' '..='~' => written.push(letter),
            letter => written.push_str(&format!("\\U{:08x}", u32::from(letter))),
        }
    }
    written.push('\'');
    written
}

/// What a text answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TextAnswer {
    /// Lines of `name=value`.
    Done(String),
    /// It failed because of the moment at which it ran.
    Again(String),
    Failed(String),
}

impl TextAnswer {
    pub(super) fn parse(text: &str) -> Self {
        let (kind, rest) = text.split_once('\n').unwrap_or((text, ""));
        match kind {
            "ok" => Self::Done(rest.to_owned()),
            "again" => Self::Again(rest.to_owned()),
            _ => Self::Failed(rest.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_holds_any_text_in_one_line_of_ascii() {
        assert_eq!(literal("it's\n\\ é"), "'it\\'s\\n\\\\ \\U000000e9'");
    }

    #[test]
    fn the_text_is_one_line_without_names_of_the_program() {
        let place = AnswerPlace::Memory { answer: 1, length: 2, flag: 3 };
        let text = wrapped("answer = ''", 7, 100, &place);
        assert_eq!(text.lines().count(), 1);
        assert!(
            text.starts_with(
                "(lambda: 0).__builtins__['exec']('import posix as o, _signal as s, _thread as t, sys\\ndef number(e):\\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn answers_are_told_apart() {
        assert_eq!(TextAnswer::parse("ok\na=1\n"), TextAnswer::Done("a=1\n".to_owned()));
        assert_eq!(TextAnswer::parse("again\nRecursionError: x"), TextAnswer::Again("RecursionError: x".to_owned()));
        assert_eq!(TextAnswer::parse("error\nx"), TextAnswer::Failed("x".to_owned()));
    }
}
