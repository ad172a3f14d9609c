//! Call stacks of a snapshot: the frames of Python code, as text, each stack once.

use rustc_hash::FxHashMap;

use crate::pickle::{PickleValue, PickleValues};
use crate::snapshot::{field, whole};

/// Frames of a stack that are kept, and frames that are looked at.
const FRAMES: usize = 12;
const LOOKED_AT: usize = 400;

/// Letters of a name.
const NAME: usize = 300;

/// A stack of no frames: nothing was recorded.
pub(crate) const NO_STACK: u32 = 0;

/// All stacks that were asked for, by number.
#[derive(Debug)]
pub(crate) struct Stacks<'p> {
    values: &'p PickleValues,
    keys: [Option<u32>; 3],
    by_list: FxHashMap<u32, u32>,
    by_frames: FxHashMap<Vec<String>, u32>,
    frames: Vec<Vec<String>>,
}

impl<'p> Stacks<'p> {
    pub(crate) fn new(values: &'p PickleValues) -> Self {
        let keys = ["filename", "line", "name"].map(|key| values.number(key));
        let by_frames = FxHashMap::from_iter([(Vec::new(), NO_STACK)]);
        Self { values, keys, by_list: FxHashMap::default(), by_frames, frames: vec![Vec::new()] }
    }

    /// The number of a stack. Lists with the same frames have the same.
    pub(crate) fn number(&mut self, frames: PickleValue) -> u32 {
        let PickleValue::Container(list) = frames else { return NO_STACK };
        if let Some(known) = self.by_list.get(&list) {
            return *known;
        }
        let frames = self.written(frames);
        let next = self.frames.len() as u32;
        let number = *self.by_frames.entry(frames).or_insert_with_key(|frames| {
            self.frames.push(frames.clone());
            next
        });
        self.by_list.insert(list, number);
        number
    }

    /// The frames of a stack, the innermost first.
    pub(crate) fn frames(&self, number: u32) -> &[String] {
        self.frames.get(number as usize).map_or(&[], |frames| frames)
    }

    fn written(&self, list: PickleValue) -> Vec<String> {
        let (mut python, mut native) = (Vec::new(), Vec::new());
        for frame in self.values.list(list).iter().take(LOOKED_AT) {
            let [file, line, name] = self.keys.map(|key| field(self.values, *frame, key).unwrap_or(PickleValue::None));
            let (file, name) = (self.values.said(file).unwrap_or("?"), self.values.said(name).unwrap_or("?"));
            let line = whole(line).unwrap_or(0);
            let is_python = file.ends_with(".py") || file.starts_with('<');
            let of = if is_python { &mut python } else { &mut native };
            if of.len() < FRAMES {
                of.push(format!("{file}:{line} in {name}").chars().take(NAME).collect());
            }
        }
        if python.is_empty() { native } else { python }
    }
}

/// Where code is that the program has not written itself: installed packages, Python's library, PyTorch's own source, generated code.
const NOT_OWN: [&str; 6] =
    ["/site-packages/", "/dist-packages/", "/lib/python3.", "/pytorch/torch/", "<frozen ", "<eval_with_key>"];

/// The first frame of the program's own code; otherwise the innermost.
pub(crate) fn own_frame(frames: &[String]) -> Option<&String> {
    let is_own = |frame: &&String| !NOT_OWN.iter().any(|part| frame.contains(part));
    frames.iter().find(is_own).or_else(|| frames.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_program_is_the_first_of_its_own_code() {
        let check = |frames: &[&str], expected: usize| {
            let frames: Vec<_> = frames.iter().map(ToString::to_string).collect();
            assert_eq!(own_frame(&frames), frames.get(expected));
        };
        check(
            &[
                "/v/lib/python3.12/site-packages/torch/x.py:1 in f",
                "<eval_with_key>.3:2 in forward",
                "/srv/a.py:3 in main",
            ],
            2,
        );
        check(&["<ipython-input-3-ab>:1 in <module>", "/srv/a.py:3 in main"], 0);
        check(&["/usr/lib/python3.12/contextlib.py:5 in inner"], 0);
        check(&[], 0);
    }
}
