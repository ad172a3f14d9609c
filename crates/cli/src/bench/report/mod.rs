//! A run as people read it: Markdown tables, and one HTML page that needs nothing else.

pub(crate) mod drawings;
pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod plots;
#[cfg(test)]
pub(crate) mod sample;
mod tables;
pub(crate) mod terminal;

/// What a report says about how to read it.
pub(crate) const READING: &str = "Figures are the medians of all runs. A ratio is the geometric mean over runs of the \
     same number, which met the same arrivals, with its 95 % bounds over whole runs in brackets; a star marks those \
     whose bounds exclude 1. Latency counts from the moment at which a request was meant to be sent. CPU and \
     memory with clones are of the whole process tree, shared pages counted once; RSS is of the process itself, which \
     shares its pages with them. The cgroup also counts files that were read, and parts of huge pages that no process \
     uses any more and the kernel has not yet taken back. The RSS trend is that of the last half of a trial. The longest stop is the longest collection that the \
     program's own callbacks saw, or the longest clone or slice of a snapshot since the start, whichever is longer. \
     Garbage left is what a full collection finds at the end.";
