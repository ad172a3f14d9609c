//! Memory of GPUs: the part of the status report on it, and the report on what holds it.

use serde::{Deserialize, Serialize};

/// Memory of the GPUs that the process uses, as PyTorch's allocator tells it. All is zero where none is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gpu {
    /// When it was read, in seconds since the agent was installed; 0 before the first time.
    pub at_s: f64,
    /// Steps of optimizers that have ended.
    pub steps: u64,
    /// What tensors and other blocks take, on all devices.
    pub allocated_bytes: u64,
    /// What the allocator has taken from the devices.
    pub reserved_bytes: u64,
    /// Free pieces of segments that are in use in part.
    pub inactive_bytes: u64,
    /// Pinned memory of the host; `None` where PyTorch does not tell.
    pub pinned_bytes: Option<u64>,
    /// Errors "CUDA out of memory", those that the program handled included.
    pub ooms: u64,
    /// Those after which the program went on: a step, an epoch or an evaluation has ended since, or ten seconds have passed.
    pub ooms_handled: u64,
    /// The file with the report on the latest one; empty where there is none.
    pub oom_report: String,
    /// The devices.
    pub devices: Vec<GpuDevice>,
    /// The latest steps, the oldest first.
    pub recent: Vec<GpuMoment>,
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuDevice {
    /// PyTorch's number for it.
    pub device: u32,
    /// What tensors and other blocks take.
    pub allocated_bytes: u64,
    /// The most that they took so far, at the ends of steps and once a second.
    pub peak_bytes: u64,
    /// What the allocator has taken from the device.
    pub reserved_bytes: u64,
    /// Blocks in use, and those that a stream still needs.
    pub active_bytes: u64,
    /// Free pieces of segments that are in use in part.
    pub inactive_bytes: u64,
    /// Blocks in use.
    pub blocks: u64,
    /// How often the allocator had to give its cache back and try again.
    pub retries: u64,
    /// Errors "CUDA out of memory".
    pub ooms: u64,
    /// Memory of the whole card; 0 where that is not known.
    pub card_bytes: u64,
    /// What is free of it, for all processes.
    pub card_free_bytes: u64,
    /// Other processes on the card; `None` where the driver does not tell.
    pub other_processes: Option<u64>,
    /// What they have on it together.
    pub other_processes_bytes: Option<u64>,
}

/// All devices at the end of a step, or between steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuMoment {
    /// Seconds since the agent was installed.
    pub at_s: f64,
    /// Steps that had ended.
    pub steps: u64,
    /// See `Gpu`.
    pub allocated_bytes: u64,
    /// See `Gpu`.
    pub reserved_bytes: u64,
    /// See `Gpu`.
    pub inactive_bytes: u64,
}

/// What holds the memory of the GPUs, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuReport {
    /// The devices that are in use.
    pub devices: Vec<GpuHeld>,
    /// What holds tensors that are neither parameters nor their gradients, nor the optimizer's, the largest first.
    pub holders: Vec<GpuHolder>,
    /// Optimizer steps that had ended.
    pub steps: u64,
    /// How long it took. The thread that was asked stood still meanwhile.
    pub took_ms: f64,
    /// Whether all was looked at; otherwise time ran out.
    pub complete: bool,
}

/// The memory of one device by what it is used for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuHeld {
    /// PyTorch's number for it.
    pub device: u32,
    /// Its name.
    pub name: String,
    /// Memory of the card, and what is free of it.
    pub card_bytes: u64,
    /// See `card_bytes`.
    pub card_free_bytes: u64,
    /// What the allocator has taken.
    pub reserved_bytes: u64,
    /// Blocks in use. The next eight add up to it.
    pub allocated_bytes: u64,
    /// Parameters of modules and of optimizers.
    pub parameters: u64,
    /// Their gradients.
    pub gradients: u64,
    /// What optimizers keep for each parameter.
    pub optimizer: u64,
    /// Buffers of modules.
    pub buffers: u64,
    /// What autograd has saved for the backward pass.
    pub activations: u64,
    /// Other tensors.
    pub other: u64,
    /// Workspaces of cuBLAS, known by their size.
    pub workspaces: u64,
    /// Blocks that Python code cannot see: tensors of C++ code, other libraries.
    pub unseen: u64,
    /// Segments without a block in use: `torch.cuda.empty_cache()` gives them back.
    pub cached: u64,
    /// Free pieces of segments that are in use in part: they cannot be given back.
    pub fragmented: u64,
    /// What this process has on the card besides: CUDA itself, libraries; `None` where that is not known.
    pub not_pytorch: Option<u64>,
    /// Other processes on the card, where the driver tells.
    pub others: Vec<GpuProcess>,
}

impl GpuHeld {
    /// The categories of blocks in use, with the names that people are shown.
    #[must_use]
    pub fn categories(&self) -> [(&'static str, u64); 8] {
        [
            ("parameters", self.parameters),
            ("gradients", self.gradients),
            ("optimizer state", self.optimizer),
            ("buffers", self.buffers),
            ("activations saved by autograd", self.activations),
            ("other tensors", self.other),
            ("workspaces of cuBLAS", self.workspaces),
            ("not seen from Python", self.unseen),
        ]
    }

    /// The share of the blocks in use whose category is known, from 0 to 1.
    #[must_use]
    pub fn attributed(&self) -> f64 {
        if self.allocated_bytes == 0 {
            return 1.0;
        }
        1.0 - self.unseen.min(self.allocated_bytes) as f64 / self.allocated_bytes as f64
    }
}

/// A process on a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuProcess {
    /// Its number.
    pub pid: u32,
    /// What it has on the card.
    pub bytes: u64,
}

/// Something that holds tensors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuHolder {
    /// The Python path: `trainer.history["loss"][…]`; empty where none was found.
    pub path: String,
    /// What kind of holder it is.
    pub kind: GpuHolderKind,
    /// How many tensors it holds.
    pub tensors: u64,
    /// Their bytes on the devices.
    pub bytes: u64,
    /// What only their autograd graphs keep, in bytes and in nodes.
    pub graph_bytes: u64,
    /// See `graph_bytes`.
    pub graph_nodes: u64,
    /// The most entries that the container takes, where it has a bound.
    pub bound: Option<u64>,
}

impl GpuHolder {
    /// The memory that is there because of it.
    #[must_use]
    pub fn all_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.graph_bytes)
    }
}

/// What kind of holder it is: which pattern it would be if it grew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuHolderKind {
    /// Nothing more is known.
    #[default]
    Other,
    /// A list, dict, set or deque.
    Container,
    /// A container that a hook of a module fills, or an object that a hook belongs to.
    Hook,
    /// An attribute of an object or of a class.
    Attribute,
    /// A variable of a function or of a module.
    Variable,
    /// A frame that a stored traceback holds.
    Traceback,
    /// A dataset, or its class.
    Dataset,
    /// Gradients that are part of a graph themselves, by `create_graph`.
    Gradient,
}
