//! The machine that a pickle is a program for, without the instructions that import and call.

use super::fields::{decimal, escaped, float, long, quoted};
use super::values::{PickleContents, PickleValue, PickleValues};
use super::{Pickle, PickleError};

/// How far ahead of the others the number of a remembered value may be: writers count from 0 or 1.
const MEMO_GAP: usize = 1 << 16;

/// Names of classes and functions that are kept, and how long they may be.
const NAMED: usize = 20;
const NAME: usize = 200;

/// What a container takes beside its values, with its part of the allocator's.
const OF_CONTAINER: usize = size_of::<PickleContents>() + 16;
const OF_VALUE: usize = size_of::<PickleValue>();

type Step<T> = Result<T, PickleError>;

pub(super) struct Machine<'b> {
    bytes: &'b [u8],
    at: usize,
    /// Where the instruction began that is carried out.
    began: usize,
    limit: usize,
    spent: usize,
    values: PickleValues,
    stack: Vec<PickleValue>,
    /// How high the stack was at each mark.
    marks: Vec<usize>,
    memo: Vec<Option<PickleValue>>,
    protocol: u8,
    named: Vec<String>,
}

impl<'b> Machine<'b> {
    pub(super) fn new(bytes: &'b [u8], limit: usize) -> Self {
        Self {
            bytes,
            at: 0,
            began: 0,
            limit,
            spent: 0,
            values: PickleValues::default(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            protocol: 0,
            named: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> Pickle {
        let error = loop {
            match self.step() {
                Ok(true) => {}
                Ok(false) => break None,
                Err(error) => break Some(error),
            }
        };
        if error.is_some() {
            self.close();
        }
        let root = self.stack.first().copied().unwrap_or(PickleValue::None);
        let rest = if error.is_some() { 0 } else { self.bytes.len() - self.at };
        Pickle { values: self.values, root, error, rest, protocol: self.protocol, named: self.named }
    }

    /// Puts what is still on the stack into the containers that it was meant for.
    fn close(&mut self) {
        while let Some(from) = self.marks.pop() {
            let items = self.stack.split_off(from.min(self.stack.len()));
            if let Some(container) = self.stack.last().copied() {
                self.put(container, &items);
            }
        }
        if self.stack.len() > 1 {
            let items = self.stack.split_off(1);
            self.put(self.stack[0], &items);
        }
    }

    fn put(&mut self, container: PickleValue, items: &[PickleValue]) {
        match self.values.contents_mut(container) {
            Some(PickleContents::List(list)) => list.extend_from_slice(items),
            Some(PickleContents::Dict(dict)) => dict.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1]))),
            // Items of an object that is not made.
            None => {}
        }
    }

    /// Carries out one instruction; false at the end.
    fn step(&mut self) -> Step<bool> {
        self.began = self.at;
        let code = self.byte()?;
        match code {
            b'.' => {
                let value = self.pop()?;
                self.stack = vec![value];
                return Ok(false);
            }
            0x80 => self.protocol = self.byte()?,
            // A frame says only how far could be read ahead.
            0x95 => drop(self.take(8)?),
            b'(' => {
                self.spend(size_of::<usize>())?;
                self.marks.push(self.stack.len());
            }
            b'0' => drop(self.pop()?),
            b'1' => drop(self.marked()?),
            b'2' => {
                let value = self.top()?;
                self.push(value)?;
            }
            b'N' => self.push(PickleValue::None)?,
            0x88 => self.push(PickleValue::Bool(true))?,
            0x89 => self.push(PickleValue::Bool(false))?,
            b'I' | b'L' | b'J' | b'K' | b'M' | 0x8a | 0x8b | b'F' | b'G' => {
                let number = self.number(code)?;
                self.push(number)?;
            }
            b'V' | b'S' | b'X' | 0x8c | 0x8d | b'T' | b'U' => self.text(code)?,
            b'B' | b'C' | 0x8e | 0x96 | 0x97 => self.raw(code)?,
            // The buffer that it would make unchangeable is opaque.
            0x98 => drop(self.top()?),
            b']' | b')' | 0x8f => self.make(PickleContents::List(Vec::new()))?,
            b'}' => self.make(PickleContents::Dict(Vec::new()))?,
            b'l' | b't' | 0x91 => {
                let items = self.marked()?;
                self.make(PickleContents::List(items))?;
            }
            b'd' => {
                let items = self.marked()?;
                self.paired(&items)?;
                self.make(PickleContents::Dict(items.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()))?;
            }
            0x85..=0x87 => {
                let items = self.pop_many(usize::from(code - 0x84))?;
                self.make(PickleContents::List(items))?;
            }
            b'a' | b'e' | 0x90 => {
                let items = if code == b'a' { self.pop_many(1)? } else { self.marked()? };
                let list = self.top()?;
                if let Some(PickleContents::Dict(_)) = self.values.contents(list) {
                    return Err(self.damaged("a dict is appended to"));
                }
                self.put(list, &items);
            }
            b's' | b'u' => {
                let items = if code == b's' { self.pop_many(2)? } else { self.marked()? };
                self.paired(&items)?;
                let dict = self.top()?;
                if let Some(PickleContents::List(_)) = self.values.contents(dict) {
                    return Err(self.damaged("a list gets keys"));
                }
                self.put(dict, &items);
            }
            b'p' | b'q' | b'r' | 0x94 => self.remember(code)?,
            b'g' | b'h' | b'j' => self.recall(code)?,
            b'P' | b'Q' | b'c' | b'i' | b'o' | b'R' | b'b' | 0x81..=0x84 | 0x92 | 0x93 => self.opaque(code)?,
            _ => return Err(PickleError::Unknown { at: self.began, code }),
        }
        Ok(true)
    }

    fn number(&mut self, code: u8) -> Step<PickleValue> {
        let wrong = "a number cannot be read";
        Ok(match code {
            b'I' => match self.line()? {
                b"00" => PickleValue::Bool(false),
                b"01" => PickleValue::Bool(true),
                line => PickleValue::Integer(decimal(line).ok_or_else(|| self.damaged(wrong))?),
            },
            b'L' => {
                let line = self.line()?;
                PickleValue::Integer(decimal(line).ok_or_else(|| self.damaged(wrong))?)
            }
            b'F' => {
                let line = self.line()?;
                PickleValue::Float(float(line).ok_or_else(|| self.damaged(wrong))?)
            }
            b'G' => {
                let mut eight = [0; 8];
                eight.copy_from_slice(self.take(8)?);
                PickleValue::Float(f64::from_be_bytes(eight))
            }
            b'J' => PickleValue::Integer(long(self.take(4)?)),
            b'K' => PickleValue::Integer(i64::from(self.byte()?)),
            b'M' => PickleValue::Integer(self.length(2)? as i64),
            _ => {
                let length = self.length(if code == 0x8a { 1 } else { 4 })?;
                PickleValue::Integer(long(self.take(length)?))
            }
        })
    }

    fn text(&mut self, code: u8) -> Step<()> {
        let number = match code {
            b'V' => {
                let line = self.line()?;
                self.written(&escaped(line))?
            }
            b'S' => {
                let line = self.line()?;
                self.written(&quoted(line))?
            }
            _ => {
                let bytes = self.sized(match code {
                    0x8c | b'U' => 1,
                    0x8d => 8,
                    _ => 4,
                })?;
                self.written(&String::from_utf8_lossy(bytes))?
            }
        };
        self.push(PickleValue::Text(number))
    }

    /// Bytes, which nothing here needs.
    fn raw(&mut self, code: u8) -> Step<()> {
        match code {
            b'C' => drop(self.sized(1)?),
            b'B' => drop(self.sized(4)?),
            0x97 => {}
            _ => drop(self.sized(8)?),
        }
        let name = self.written("bytes")?;
        self.push(PickleValue::Opaque(name))
    }

    fn remember(&mut self, code: u8) -> Step<()> {
        let number = match code {
            b'p' => self.line_number()?,
            b'q' => self.length(1)?,
            b'r' => self.length(4)?,
            _ => self.memo.len(),
        };
        let value = self.top()?;
        if number > self.memo.len() + MEMO_GAP {
            return Err(self.damaged("a value is remembered under a number far ahead of the others"));
        }
        if number >= self.memo.len() {
            self.spend((number + 1 - self.memo.len()) * OF_VALUE)?;
            self.memo.resize(number + 1, None);
        }
        self.memo[number] = Some(value);
        Ok(())
    }

    fn recall(&mut self, code: u8) -> Step<()> {
        let number = match code {
            b'g' => self.line_number()?,
            b'h' => self.length(1)?,
            _ => self.length(4)?,
        };
        let value = self.memo.get(number).copied().flatten();
        let value = value.ok_or_else(|| self.damaged("a value is used that was not remembered"))?;
        self.push(value)
    }

    /// What would import or call something: the name is noted, and the result is opaque.
    fn opaque(&mut self, code: u8) -> Step<()> {
        let named = match code {
            // An object gets its state, and stays what it is.
            b'b' => {
                self.pop()?;
                self.top()?;
                return Ok(());
            }
            b'c' | b'i' => {
                let (module, name) = (self.line()?, self.line()?);
                if code == b'i' {
                    self.marked()?;
                }
                self.note(&String::from_utf8_lossy(module), &String::from_utf8_lossy(name))?
            }
            0x93 => {
                let parts = self.pop_many(2)?;
                let said = |part: PickleValue| self.values.said(part).unwrap_or("?").to_owned();
                let (module, name) = (said(parts[0]), said(parts[1]));
                self.note(&module, &name)?
            }
            b'R' | 0x81 | 0x92 => {
                let parts = self.pop_many(if code == 0x92 { 3 } else { 2 })?;
                self.made_by(parts[0])?
            }
            b'o' => {
                let parts = self.marked()?;
                self.made_by(parts.first().copied().unwrap_or(PickleValue::None))?
            }
            b'P' => {
                self.line()?;
                self.note("persistent", "id")?
            }
            b'Q' => {
                self.pop()?;
                self.note("persistent", "id")?
            }
            _ => {
                let number = self.length(1 << (code - 0x82))?;
                self.note("copyreg", &format!("extension {number}"))?
            }
        };
        self.push(PickleValue::Opaque(named))
    }

    fn made_by(&mut self, callable: PickleValue) -> Step<u32> {
        match callable {
            PickleValue::Opaque(name) => Ok(name),
            _ => self.written("object"),
        }
    }

    fn note(&mut self, module: &str, name: &str) -> Step<u32> {
        let whole: String = format!("{module}.{name}").chars().take(NAME).collect();
        if self.named.len() < NAMED && !self.named.contains(&whole) {
            self.named.push(whole.clone());
        }
        self.written(&whole)
    }

    fn written(&mut self, text: &str) -> Step<u32> {
        let (number, bytes) = self.values.add_text(text);
        self.spend(bytes)?;
        Ok(number)
    }

    fn make(&mut self, contents: PickleContents) -> Step<()> {
        self.spend(OF_CONTAINER)?;
        let value = self.values.add(contents);
        self.push(value)
    }

    fn paired(&self, items: &[PickleValue]) -> Step<()> {
        if items.len().is_multiple_of(2) { Ok(()) } else { Err(self.damaged("a key has no value")) }
    }

    /// Every value on the stack will be in a container, or is one: so it counts once, and is never given back.
    fn push(&mut self, value: PickleValue) -> Step<()> {
        self.spend(OF_VALUE)?;
        self.stack.push(value);
        Ok(())
    }

    fn spend(&mut self, bytes: usize) -> Step<()> {
        self.spent = self.spent.saturating_add(bytes);
        if self.spent > self.limit {
            return Err(PickleError::TooLarge { at: self.began, limit: self.limit });
        }
        Ok(())
    }

    /// How low the stack may go before the latest mark.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Step<PickleValue> {
        if self.stack.len() <= self.floor() {
            return Err(self.damaged("a value is missing"));
        }
        self.stack.pop().ok_or_else(|| self.damaged("a value is missing"))
    }

    fn pop_many(&mut self, many: usize) -> Step<Vec<PickleValue>> {
        if self.stack.len() < self.floor() + many {
            return Err(self.damaged("a value is missing"));
        }
        Ok(self.stack.split_off(self.stack.len() - many))
    }

    fn top(&self) -> Step<PickleValue> {
        let top = self.stack.get(self.floor()..).and_then(<[PickleValue]>::last);
        top.copied().ok_or_else(|| self.damaged("a value is missing"))
    }

    /// Everything above the latest mark, which goes, too.
    fn marked(&mut self) -> Step<Vec<PickleValue>> {
        let from = self.marks.pop().ok_or_else(|| self.damaged("a mark is missing"))?;
        Ok(self.stack.split_off(from.min(self.stack.len())))
    }

    fn byte(&mut self) -> Step<u8> {
        Ok(self.take(1)?[0])
    }

    fn take(&mut self, length: usize) -> Step<&'b [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let taken = rest.get(..length).ok_or(PickleError::CutOff { at: self.bytes.len() })?;
        self.at += length;
        Ok(taken)
    }

    /// A length of so many bytes.
    fn length(&mut self, width: usize) -> Step<usize> {
        let mut eight = [0; 8];
        eight[..width].copy_from_slice(self.take(width)?);
        usize::try_from(u64::from_le_bytes(eight)).map_err(|_| self.damaged("a length is too large"))
    }

    fn sized(&mut self, width: usize) -> Step<&'b [u8]> {
        let length = self.length(width)?;
        self.take(length)
    }

    fn line(&mut self) -> Step<&'b [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or(PickleError::CutOff { at: self.bytes.len() })?;
        self.at += end + 1;
        Ok(&rest[..end])
    }

    fn line_number(&mut self) -> Step<usize> {
        let line = self.line()?;
        let number = decimal(line).and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| self.damaged("a number cannot be read"))
    }

    fn damaged(&self, what: &'static str) -> PickleError {
        PickleError::Damaged { at: self.began, what }
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    const MUCH: usize = 1 << 20;

    /// What a pickle gives, written as Python would.
    fn shown(pickle: &Pickle) -> String {
        fn of(values: &PickleValues, value: PickleValue, depth: usize) -> String {
            if depth == 0 {
                return "…".to_owned();
            }
            match value {
                PickleValue::None => "None".to_owned(),
                PickleValue::Bool(it) => it.to_string(),
                PickleValue::Integer(it) => it.to_string(),
                PickleValue::Float(it) => it.to_string(),
                PickleValue::Text(it) => format!("{:?}", values.text(it)),
                PickleValue::Opaque(it) => format!("<{}>", values.text(it)),
                PickleValue::Container(_) => match values.contents(value) {
                    Some(PickleContents::Dict(pairs)) => {
                        let pairs =
                            pairs.iter().map(|(key, it)| (of(values, *key, depth - 1), of(values, *it, depth - 1)));
                        format!("{{{}}}", pairs.map(|(key, it)| format!("{key}: {it}")).collect::<Vec<_>>().join(", "))
                    }
                    _ => {
                        let items: Vec<_> = values.list(value).iter().map(|it| of(values, *it, depth - 1)).collect();
                        format!("[{}]", items.join(", "))
                    }
                },
            }
        }
        of(&pickle.values, pickle.root, 6)
    }

    fn check(bytes: &[u8], expected: &str) {
        let pickle = read(bytes, MUCH);
        assert_eq!((shown(&pickle).as_str(), pickle.error), (expected, None));
    }

    /// `{'a': [1, 2.5, None, True, (1, -70000)], 'b': 'a'}` as each protocol of CPython writes it.
    #[test]
    fn every_protocol_is_read() {
        let expected = r#"{"a": [1, 2.5, None, true, [1, -70000]], "b": "a"}"#;
        check(b"(dp0\nVa\np1\n(lp2\nI1\naF2.5\naNaI01\na(I1\nI-70000\ntp3\nasVb\np4\ng1\ns.", expected);
        check(
            b"}q\0(X\x01\0\0\0aq\x01]q\x02(K\x01G@\x04\0\0\0\0\0\0NI01\n(K\x01J\x90\xee\xfe\xfftq\x03eX\x01\0\0\0bq\x04h\x01u.",
            expected,
        );
        check(
            b"\x80\x02}q\0(X\x01\0\0\0aq\x01]q\x02(K\x01G@\x04\0\0\0\0\0\0N\x88K\x01J\x90\xee\xfe\xff\x86q\x03eX\x01\0\0\0bq\x04h\x01u.",
            expected,
        );
        check(
            b"\x80\x04\x95\x2d\0\0\0\0\0\0\0}\x94(\x8c\x01a\x94]\x94(K\x01G@\x04\0\0\0\0\0\0N\x88K\x01J\x90\xee\xfe\xff\x86\x94e\x8c\x01b\x94h\x01u.",
            expected,
        );
    }

    #[test]
    fn what_would_be_called_is_named_and_opaque() {
        let pickle = read(b"cposix\nsystem\n(S'touch /tmp/x'\ntR.", MUCH);
        assert_eq!(
            (shown(&pickle).as_str(), pickle.named.as_slice()),
            ("<posix.system>", &["posix.system".to_owned()][..])
        );
        let pickle = read(b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R}b.", MUCH);
        assert_eq!((shown(&pickle).as_str(), pickle.named.len()), ("<posix.system>", 1));
        check(b"\x80\x02ccollections\nOrderedDict\n)R(K\x01K\x02u.", "<collections.OrderedDict>");
        check(b"(cbuiltins\neval\nS'1'\no.", "<builtins.eval>");
        check(b"\x80\x05C\x03abc\x96\x01\0\0\0\0\0\0\0x\x86.", "[<bytes>, <bytes>]");
    }

    #[test]
    fn a_pickle_that_is_cut_off_gives_what_it_has_begun() {
        let whole = b"\x80\x02}q\0(X\x01\0\0\0a]q\x01(K\x01K\x02eX\x01\0\0\0b]q\x02(}q\x03(X\x01\0\0\0cK\x07X\x01\0\0\0dK\x08u}eu.";
        check(whole, r#"{"a": [1, 2], "b": [{"c": 7, "d": 8}, {}]}"#);
        let after = |part: &[u8]| whole.windows(part.len()).position(|it| it == part).map_or(0, |at| at + part.len());
        let cut = |length: usize| {
            let pickle = read(&whole[..length], MUCH);
            assert_eq!(pickle.error, Some(PickleError::CutOff { at: length }));
            shown(&pickle)
        };
        assert_eq!(cut(whole.len() - 1), r#"{"a": [1, 2], "b": [{"c": 7, "d": 8}, {}]}"#);
        assert_eq!(cut(after(b"K\x07X")), r#"{"a": [1, 2], "b": [{"c": 7}]}"#);
        assert_eq!(cut(after(b"(K")), r#"{"a": []}"#);
        (0..whole.len()).for_each(|length| drop(cut(length)));
    }

    #[test]
    fn values_that_are_part_of_themselves_end() {
        let pickle = read(b"\x80\x02]q\0h\0a.", MUCH);
        assert_eq!((shown(&pickle).as_str(), pickle.error), ("[[[[[[…]]]]]]", None));
    }

    #[test]
    fn damage_is_told_with_its_place() {
        let error = |bytes: &[u8]| read(bytes, MUCH).error.map_or_else(String::new, |error| error.to_string());
        assert_eq!(error(b"\x80\x02]K\x01s."), "it is damaged at byte 5: a value is missing");
        assert_eq!(error(b"\x80\x02]K\x01\xff."), "byte 5 (0xff) is no instruction of a pickle");
        assert_eq!(error(b"h\x07."), "it is damaged at byte 0: a value is used that was not remembered");
        assert_eq!(
            error(b"Nr\xff\xff\xff\x7f."),
            "it is damaged at byte 1: a value is remembered under a number far ahead of the others"
        );
        assert_eq!(error(b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff"), "it is cut off at byte 9");
        assert_eq!(error(b"N(0."), "it is damaged at byte 2: a value is missing");
    }

    #[test]
    fn memory_is_bounded() {
        let bytes = vec![b']'; 1 << 20];
        let pickle = read(&bytes, 64 << 10);
        assert!(matches!(pickle.error, Some(PickleError::TooLarge { limit: 65_536, .. })), "{:?}", pickle.error);
        let marks = vec![b'('; 1 << 20];
        assert!(matches!(read(&marks, 64 << 10).error, Some(PickleError::TooLarge { .. })));
    }
}
