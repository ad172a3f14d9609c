//! The policies on the made-up services: what `neural` may cost in processor time.

#![expect(clippy::print_stdout, reason = "what is measured is shown where the test fails")]

use neurogc_learn::course::services;
use neurogc_learn::{Scene, simulate};
use neurogc_policy::Name;

#[test]
fn neural_flies_and_looks_no_more_often_than_gap_and_keeps_its_memory() {
    let (mut flights, mut theirs) = (0, 0);
    for service in services() {
        let scene = Scene::new(&service.model, &service.workload);
        let (gap, neural) = (simulate(&scene, Name::Gap), simulate(&scene, Name::Neural(None)));
        let name = &service.name;
        // Where there are a hundred and more, one may fall within the time of a run or after it.
        let most = gap.snapshots + gap.snapshots / 50;
        assert!(neural.snapshots <= most, "{name}: {} of {}", neural.snapshots, gap.snapshots);
        (flights, theirs) = (flights + neural.snapshots, theirs + gap.snapshots);
        assert!(neural.looks as f64 <= 1.02 * gap.looks as f64 + 10.0, "{name}: {} of {}", neural.looks, gap.looks);
        assert!(neural.full <= gap.full && neural.forced.count <= gap.forced.count, "{name}: {neural:?}");
        assert!(neural.peak_rss_mb <= 1.05 * gap.peak_rss_mb, "{name}: {} {}", neural.peak_rss_mb, gap.peak_rss_mb);
        let processor = neural.processor.total_ms() / gap.processor.total_ms();
        println!("{name}: processor {processor:.3}, peak {:.3}", neural.peak_rss_mb / gap.peak_rss_mb);
    }
    assert!(flights <= theirs, "{flights} of {theirs}");
}
