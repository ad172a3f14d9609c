//! A snapshot of PyTorch's allocator as one HTML file that loads nothing.

use neurogc_gpu::GpuSnapshot;
use serde::Serialize;

use crate::plot;

/// The page, made by `dashboard/build`.
const PAGE: &str = include_str!("../../../../dashboard/dist/snapshot.html");

/// Where the page expects its data.
const MARK: &str = "\"NEUROGC-SNAPSHOT-DATA\"";

/// What the page shows. Its fields are those that `dashboard/src/snapshot/page.ts` reads.
#[derive(Serialize)]
struct PageData<'p> {
    name: &'p str,
    snapshot: &'p GpuSnapshot,
}

/// The file.
pub(crate) fn encode(name: &str, snapshot: &GpuSnapshot) -> Result<String, serde_json::Error> {
    Ok(PAGE.replacen(MARK, &plot::inside_script(&PageData { name, snapshot })?, 1))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use neurogc_gpu::{ReadLimits, sample};

    use super::*;

    #[test]
    fn nothing_in_a_name_ends_the_element() {
        let report = neurogc_gpu::read(&sample::training().pickle(), ReadLimits::default()).unwrap();
        let page = encode("</script><b>.pickle", &report).unwrap();
        assert!(
            page.contains(r#""name":"\u003c/script>\u003cb>.pickle""#) && page.contains("/srv/train.py:40 in step")
        );
        assert_eq!((page.matches("</script>").count(), page.matches(MARK).count()), (2, 0));
        let loaded = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!loaded.contains("http://") && !loaded.contains("https://"));
    }
}
