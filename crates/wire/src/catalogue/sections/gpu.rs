//! Figures of the memory of GPUs.

use super::super::figure::{Across, Figure, ReadEach, Unit, figure, item};

/// The label that tells devices apart.
const DEVICE: &[&str] = &["device"];
/// The same for OpenTelemetry. Its conventions name cards by a number of the machine, which PyTorch's is not.
const DEVICE_KEY: &str = "neurogc.gpu.device";

/// Reads a figure of every device.
macro_rules! each_device {
    ($field:ident) => {{
        let read: ReadEach = |sample, to| {
            for row in &sample.status.gpu.devices {
                to(&[("device", &row.device.to_string())], row.$field as f64);
            }
        };
        read
    }};
}

/// The same for a figure that is not known everywhere.
macro_rules! each_known {
    ($field:ident) => {{
        let read: ReadEach = |sample, to| {
            for row in &sample.status.gpu.devices {
                if let Some(value) = row.$field {
                    to(&[("device", &row.device.to_string())], value as f64);
                }
            }
        };
        read
    }};
}

/// Memory of GPUs.
pub(crate) const GPU: &[Figure] = &[
    figure!(gpu.at_s)
        .latest(Unit::Seconds, "When the memory of GPUs was read, in seconds since the agent was installed")
        .note("At the end of each optimizer step, and once a second. 0 where no GPU is used.")
        .across(Across::Apart),
    figure!(gpu.steps)
        .counter(Unit::Count, "Steps of PyTorch's optimizers that have ended, where a GPU is used")
        .series("gpu.steps")
        .prometheus("neurogc_gpu_steps_total")
        .otlp("neurogc.gpu.steps", "{step}"),
    figure!(gpu.allocated_bytes)
        .peak(Unit::Bytes, "Memory of GPUs that tensors and other blocks take, on all devices")
        .series("gpu.allocated")
        .found_in("neurogc_gpu_allocated_bytes", &[], DEVICE),
    figure!(gpu.reserved_bytes)
        .peak(Unit::Bytes, "Memory of GPUs that PyTorch's allocator has taken")
        .series("gpu.reserved")
        .found_in("neurogc_gpu_reserved_bytes", &[], DEVICE),
    figure!(gpu.inactive_bytes)
        .peak(Unit::Bytes, "Free pieces of segments that are in use in part")
        .note("PyTorch calls it inactive split. The allocator cannot give it back.")
        .series("gpu.inactive")
        .found_in("neurogc_gpu_inactive_bytes", &[], DEVICE),
    figure!(gpu.pinned_bytes)
        .peak(Unit::Bytes, "Pinned memory of the host that PyTorch's allocator has in use")
        .note("`null` where PyTorch does not tell.")
        .series("gpu.pinned")
        .prometheus("neurogc_gpu_pinned_host_bytes")
        .otlp("neurogc.gpu.host.pinned", "By"),
    figure!(gpu.ooms)
        .counter(Unit::Count, "Errors \"CUDA out of memory\"")
        .note("Those that the program handled included.")
        .series("gpu.ooms")
        .prometheus("neurogc_gpu_out_of_memory_total")
        .otlp("neurogc.gpu.out_of_memory.errors", "{error}"),
    figure!(gpu.ooms_handled)
        .counter(Unit::Count, "Those after which the program went on")
        .note("A step, an epoch or an evaluation has ended since, or ten seconds have passed.")
        .prometheus("neurogc_gpu_out_of_memory_handled_total")
        .otlp("neurogc.gpu.out_of_memory.handled", "{error}"),
    figure!(gpu.oom_report).text("The file with the report on the latest one").note("Empty where there is none."),
    figure!(gpu.devices).list("The devices that are in use"),
    item!("gpu.devices[].device").latest(Unit::Count, "PyTorch's number for the device").across(Across::Apart),
    item!("gpu.devices[].allocated_bytes")
        .peak(Unit::Bytes, "Memory of a GPU that tensors and other blocks take")
        .prometheus("neurogc_gpu_allocated_bytes")
        .each(DEVICE, each_device!(allocated_bytes))
        .otlp_each("neurogc.gpu.memory.allocated", "By", DEVICE_KEY),
    item!("gpu.devices[].peak_bytes")
        .largest(Unit::Bytes, "The most that they took, as PyTorch counts it")
        .note("The program may begin this count anew: the agent keeps the largest that it saw.")
        .prometheus("neurogc_gpu_peak_bytes")
        .each(DEVICE, each_device!(peak_bytes))
        .otlp_each("neurogc.gpu.memory.peak", "By", DEVICE_KEY),
    item!("gpu.devices[].reserved_bytes")
        .peak(Unit::Bytes, "Memory of a GPU that PyTorch's allocator has taken")
        .prometheus("neurogc_gpu_reserved_bytes")
        .each(DEVICE, each_device!(reserved_bytes))
        .otlp_each("neurogc.gpu.memory.reserved", "By", DEVICE_KEY),
    item!("gpu.devices[].active_bytes")
        .peak(Unit::Bytes, "Blocks in use, and those that a stream still needs")
        .prometheus("neurogc_gpu_active_bytes")
        .each(DEVICE, each_device!(active_bytes))
        .otlp_each("neurogc.gpu.memory.active", "By", DEVICE_KEY),
    item!("gpu.devices[].inactive_bytes")
        .peak(Unit::Bytes, "Free pieces of a GPU's segments that are in use in part")
        .prometheus("neurogc_gpu_inactive_bytes")
        .each(DEVICE, each_device!(inactive_bytes))
        .otlp_each("neurogc.gpu.memory.inactive", "By", DEVICE_KEY),
    item!("gpu.devices[].blocks")
        .peak(Unit::Count, "Blocks in use")
        .prometheus("neurogc_gpu_blocks")
        .each(DEVICE, each_device!(blocks))
        .otlp_each("neurogc.gpu.memory.blocks", "{block}", DEVICE_KEY),
    item!("gpu.devices[].retries")
        .counter(Unit::Count, "How often the allocator had to give its cache back and try again")
        .prometheus("neurogc_gpu_retries_total")
        .each(DEVICE, each_device!(retries))
        .otlp_each("neurogc.gpu.allocator.retries", "{retry}", DEVICE_KEY),
    item!("gpu.devices[].ooms")
        .counter(Unit::Count, "Errors \"CUDA out of memory\" on this device, as PyTorch counts them")
        .prometheus("neurogc_gpu_allocator_errors_total")
        .each(DEVICE, each_device!(ooms))
        .otlp_each("neurogc.gpu.allocator.errors", "{error}", DEVICE_KEY),
    item!("gpu.devices[].card_bytes")
        .latest(Unit::Bytes, "Memory of the whole card")
        .note("0 where that is not known.")
        .across(Across::Max)
        .prometheus("neurogc_gpu_card_bytes")
        .each(DEVICE, each_device!(card_bytes))
        .otlp_each("neurogc.gpu.card.size", "By", DEVICE_KEY),
    item!("gpu.devices[].card_free_bytes")
        .latest(Unit::Bytes, "What is free of the card, for all processes")
        .across(Across::Max)
        .prometheus("neurogc_gpu_card_free_bytes")
        .each(DEVICE, each_device!(card_free_bytes))
        .otlp_each("neurogc.gpu.card.free", "By", DEVICE_KEY),
    item!("gpu.devices[].other_processes")
        .latest(Unit::Count, "Other processes on the card")
        .note("`null` where the driver's library (NVML) does not tell. Read every few seconds.")
        .across(Across::Max)
        .prometheus("neurogc_gpu_other_processes")
        .each(DEVICE, each_known!(other_processes))
        .otlp_each("neurogc.gpu.card.others.processes", "{process}", DEVICE_KEY),
    item!("gpu.devices[].other_processes_bytes")
        .latest(Unit::Bytes, "What they have on it together")
        .across(Across::Max)
        .prometheus("neurogc_gpu_other_processes_bytes")
        .each(DEVICE, each_known!(other_processes_bytes))
        .otlp_each("neurogc.gpu.card.others.size", "By", DEVICE_KEY),
    figure!(gpu.recent).list("The latest 120 steps, the oldest first"),
    item!("gpu.recent[].at_s").latest(Unit::Seconds, "When the step ended").across(Across::Apart),
    item!("gpu.recent[].steps").latest(Unit::Count, "Steps that had ended").across(Across::Apart),
    item!("gpu.recent[].allocated_bytes").latest(Unit::Bytes, "As above, at that moment").across(Across::Apart),
    item!("gpu.recent[].reserved_bytes").latest(Unit::Bytes, "As above, at that moment").across(Across::Apart),
    item!("gpu.recent[].inactive_bytes").latest(Unit::Bytes, "As above, at that moment").across(Across::Apart),
];
