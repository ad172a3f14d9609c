//! Made-up snapshots, written in the real format: for tests and fuzzing that need no PyTorch.

/// A value that can be written as a pickle.
#[derive(Clone, Debug, PartialEq)]
pub enum Plain {
    /// `True` or `False`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Plain>),
    /// A tuple.
    Tuple(Vec<Plain>),
    /// A dict.
    Dict(Vec<(&'static str, Plain)>),
}

impl From<u64> for Plain {
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<&str> for Plain {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Plain {
    /// The value as a pickle of protocol 2, as PyTorch's own C++ code writes it.
    #[must_use]
    pub fn pickle(&self) -> Vec<u8> {
        let mut bytes = vec![0x80, 2];
        self.write(&mut bytes);
        bytes.push(b'.');
        bytes
    }

    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Self::Bool(it) => to.push(if *it { 0x88 } else { 0x89 }),
            Self::Integer(it) => match i32::try_from(*it) {
                Ok(small) => {
                    to.push(b'J');
                    to.extend(small.to_le_bytes());
                }
                Err(_) => {
                    to.extend([0x8a, 8]);
                    to.extend(it.to_le_bytes());
                }
            },
            Self::Text(it) => {
                to.push(b'X');
                to.extend((it.len() as u32).to_le_bytes());
                to.extend(it.as_bytes());
            }
            Self::List(items) => {
                to.extend(b"](");
                items.iter().for_each(|item| item.write(to));
                to.push(b'e');
            }
            Self::Tuple(items) => {
                to.push(b'(');
                items.iter().for_each(|item| item.write(to));
                to.push(b't');
            }
            Self::Dict(pairs) => {
                to.extend(b"}(");
                for (key, value) in pairs {
                    Self::from(*key).write(to);
                    value.write(to);
                }
                to.push(b'u');
            }
        }
    }
}

const MIB: u64 = 1 << 20;

/// Frames of a call stack: file, line and function, the innermost first.
#[must_use]
pub fn frames(of: &[(&str, u64, &str)]) -> Plain {
    let frame = |(file, line, name): &(&str, u64, &str)| {
        Plain::Dict(vec![("filename", (*file).into()), ("line", (*line).into()), ("name", (*name).into())])
    };
    Plain::List(of.iter().map(frame).collect())
}

/// A block: its size, what was asked for, its state and its frames.
#[must_use]
pub fn block(address: u64, size: u64, requested: u64, state: &str, frames: Plain) -> Plain {
    Plain::Dict(vec![
        ("address", address.into()),
        ("size", size.into()),
        ("requested_size", requested.into()),
        ("state", state.into()),
        ("frames", frames),
    ])
}

/// A segment of a device and a stream.
#[must_use]
pub fn segment(device: u64, stream: u64, address: u64, size: u64, blocks: Vec<Plain>) -> Plain {
    Plain::Dict(vec![
        ("device", device.into()),
        ("address", address.into()),
        ("total_size", size.into()),
        ("stream", stream.into()),
        ("segment_type", "large".into()),
        ("segment_pool_id", Plain::Tuple(vec![0_u64.into(), 0_u64.into()])),
        ("is_expandable", Plain::Bool(false)),
        ("frames", Plain::List(Vec::new())),
        ("blocks", Plain::List(blocks)),
    ])
}

/// An event. `address` is what was free on the device where the action is `oom`.
#[must_use]
pub fn event(action: &str, address: u64, size: u64, time_us: u64, frames: Plain) -> Plain {
    let at = if action == "oom" { "device_free" } else { "addr" };
    Plain::Dict(vec![
        ("action", action.into()),
        (at, address.into()),
        ("size", size.into()),
        ("stream", 0_u64.into()),
        ("time_us", time_us.into()),
        ("frames", frames),
    ])
}

/// A whole snapshot.
#[must_use]
pub fn snapshot(segments: Vec<Plain>, traces: Vec<Plain>) -> Plain {
    let settings = vec![("PYTORCH_CUDA_ALLOC_CONF", "".into()), ("expandable_segments", Plain::Bool(false))];
    Plain::Dict(vec![
        ("segments", Plain::List(segments)),
        ("device_traces", Plain::List(traces)),
        ("allocator_settings", Plain::Dict(settings)),
    ])
}

/// A training loop that keeps an output of each step, until a batch does not fit: two devices, two streams, an error.
#[must_use]
pub fn training() -> Plain {
    const BASE: u64 = 0x7f00_0000_0000;
    let linear = ("/venv/site-packages/torch/nn/modules/linear.py", 134, "forward");
    let weights =
        frames(&[("/venv/site-packages/torch/nn/modules/linear.py", 109, "__init__"), ("/srv/train.py", 12, "build")]);
    let kept = frames(&[linear, ("/srv/train.py", 40, "step"), ("/srv/train.py", 61, "main")]);
    let batch = frames(&[("/srv/data.py", 7, "load"), ("/srv/train.py", 60, "main")]);
    let none = || Plain::List(Vec::new());
    let mut events = vec![event("segment_alloc", BASE, 64 * MIB, 1000, none())];
    let mut blocks = vec![block(BASE, 16 * MIB, 16 * MIB - 100, "active_allocated", weights)];
    let first = BASE + 16 * MIB;
    for step in 0..6_u64 {
        let (at, time) = (first + 8 * MIB * step, 2_000 + 10_000 * step);
        events.push(event("alloc", at, 4 * MIB, time, kept.clone()));
        events.push(event("alloc", at + 4 * MIB, 3 * MIB, time + 1000, batch.clone()));
        events.push(event("free_requested", at + 4 * MIB, 3 * MIB, time + 2000, none()));
        events.push(event("free_completed", at + 4 * MIB, 3 * MIB, time + 2001, none()));
        blocks.push(block(at, 4 * MIB, 4 * MIB, "active_allocated", kept.clone()));
        blocks.push(block(at + 4 * MIB, 4 * MIB, 0, "inactive", none()));
    }
    events.push(event("oom", 5 * MIB, 32 * MIB, 70_000, batch.clone()));
    events.push(event("snapshot", 0, 0, 71_000, none()));
    let second = BASE + (1 << 32);
    let other = vec![
        block(second, 2 * MIB, 2 * MIB, "active_pending_free", batch),
        block(second + 2 * MIB, 18 * MIB, 0, "inactive", none()),
    ];
    let segments = vec![
        segment(0, 0, BASE, 64 * MIB, blocks),
        segment(0, 0x5566_7788, second, 20 * MIB, other),
        segment(1, 0, BASE, 2 * MIB, vec![block(BASE, 2 * MIB, 0, "inactive", none())]),
    ];
    snapshot(segments, vec![Plain::List(events), Plain::List(Vec::new())])
}
