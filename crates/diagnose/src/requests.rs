//! Requests that wait although nothing holds the program up.

use neurogc_wire::finding::{Finding, FindingKind};
use neurogc_wire::window::Window;

use crate::words;

/// A wait below this is not worth a finding.
const WAIT_MS: f64 = 50.0;

pub(crate) fn look(window: &Window, stalls: &[Finding]) -> Option<Finding> {
    let (wait, service) = (window.requests.wait.p99_ms, window.requests.service.p99_ms);
    if !stalls.is_empty() || wait < WAIT_MS || wait < 2.0 * service {
        return None;
    }
    let lasted = words::window(window.seconds);
    let (wait, service) = (words::ms(wait), words::ms(service));
    let text = format!(
        "Requests wait before the application sees them, and nothing stalls: in the last {lasted} the 99th percentile of \
         the wait was {wait}, that of the service {service}. More requests come than are served."
    );
    let advice = "Add workers, or make the busiest route faster: see `routes` in the report.".to_owned();
    Some(Finding { kind: FindingKind::Queueing, confidence: 0.7, text, advice, ..Finding::default() })
}
