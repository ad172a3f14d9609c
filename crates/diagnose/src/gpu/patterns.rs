//! The patterns of leaks on GPUs: what the program does, and what to do instead.

use neurogc_wire::gpu::{GpuHolder, GpuHolderKind};

/// By how much a holder has grown from one look to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct HolderGrowth {
    pub(super) tensors: i64,
    pub(super) bytes: i64,
    pub(super) graph_bytes: i64,
    pub(super) graph_nodes: i64,
}

impl HolderGrowth {
    /// From an earlier state of the same holder, or from nothing.
    pub(super) fn between(before: Option<&GpuHolder>, after: &GpuHolder) -> Self {
        let none = GpuHolder::default();
        let before = before.unwrap_or(&none);
        let grown = |of: fn(&GpuHolder) -> u64| of(after).cast_signed() - of(before).cast_signed();
        Self {
            tensors: grown(|it| it.tensors),
            bytes: grown(|it| it.bytes),
            graph_bytes: grown(|it| it.graph_bytes),
            graph_nodes: grown(|it| it.graph_nodes),
        }
    }

    /// Everything that is there because of the holder.
    pub(super) fn all(self) -> i64 {
        self.bytes + self.graph_bytes
    }
}

/// A pattern and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GpuPattern {
    pub(super) pattern: &'static str,
    pub(super) advice: &'static str,
}

/// The pattern of a holder that has grown so.
pub(super) fn pattern_of(kind: GpuHolderKind, grown: HolderGrowth) -> GpuPattern {
    let with_graph = grown.graph_nodes > 0 || grown.graph_bytes > 0;
    let (pattern, advice) = match kind {
        GpuHolderKind::Gradient => (
            "graph kept by create_graph: gradients are part of a graph, and parameters and gradients hold each other",
            "Use torch.autograd.grad instead of backward(create_graph=True), or set gradients to None after each step.",
        ),
        GpuHolderKind::Traceback => (
            "tensors in a stored traceback: an exception is kept, with the local variables of its frames",
            "Keep traceback.format_exc() instead of the exception, or clear error.__traceback__ before you store it.",
        ),
        GpuHolderKind::Dataset => (
            "cache in the dataset: each item stays on the GPU",
            "Keep items on the CPU and move batches to the GPU in the loop, or bound the cache.",
        ),
        GpuHolderKind::Hook => (
            "hook that keeps activations: what a module's hook stores is never taken out",
            "Store output.detach().cpu(), clear the store after each step, and remove the hook's handle when done.",
        ),
        GpuHolderKind::Attribute if grown.tensors <= 0 && with_graph => (
            "tensor as an attribute, with its graph: each step's graph goes on from the one before",
            "Assign state.detach() at the end of each step, or None.",
        ),
        GpuHolderKind::Attribute => (
            "tensors as attributes: objects that are kept hold the tensors of earlier steps",
            "Assign output.detach().cpu(), or delete the attribute at the end of each step.",
        ),
        _ if grown.tensors <= 0 && with_graph => (
            "graph kept by retain_graph or by a running sum: the tensor's graph holds those of all earlier steps",
            "Add loss.item() or loss.detach(); call backward once per step, without retain_graph.",
        ),
        _ if with_graph => (
            "loss or output kept with its graph: each entry holds the activations of its step",
            "Keep loss.item() or output.detach().cpu() instead of the tensor.",
        ),
        GpuHolderKind::Container => (
            "tensors in a container for logging: one more with each step",
            "Keep .item() or .cpu() of them, or write them out and clear the container.",
        ),
        _ => ("tensors of earlier steps are kept", "Let go of them at the end of each step, or keep .detach().cpu()."),
    };
    GpuPattern { pattern, advice }
}
