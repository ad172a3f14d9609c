//! What holds for any table.

use std::collections::BTreeMap;

use neurogc_wire::sites::{AllocationDomain, SiteCounts, SiteTable};
use neurogc_wire::stacks::StallStack;
use neurogc_wire::status::Cause;
use proptest::prelude::*;

use crate::builder::add;
use crate::samples::{any_nonsense, any_table, kept, place, table};
use crate::{
    CodeLine, Flame, FlameFrame, FlameNode, GroupBy, Measure, SiteChoice, SiteFilter, SiteReport, TableStacks, compare,
    export, group,
};

/// All counts of a table.
fn totals(table: &SiteTable) -> (SiteCounts, SiteCounts) {
    let mut sums = (SiteCounts::default(), SiteCounts::default());
    for site in &table.sites {
        add(&mut sums.0, &site.now);
        add(&mut sums.1, &site.before);
    }
    sums
}

type Stack<'t> = (Vec<CodeLine<'t>>, AllocationDomain);

/// The sites by text, without those that hold nothing and never did.
fn by_text(table: &SiteTable) -> BTreeMap<Stack<'_>, SiteCounts> {
    let mut found: BTreeMap<Stack<'_>, SiteCounts> = BTreeMap::new();
    for site in &table.sites {
        add(found.entry((TableStacks(table).stack(site.node).collect(), site.domain)).or_default(), &site.now);
    }
    found
}

proptest! {
    #[test]
    fn every_grouping_keeps_the_totals(earlier in any_table(), later in any_table()) {
        let table = compare(&earlier, &later);
        prop_assert_eq!(totals(&table).0.live_bytes, totals(&later).0.live_bytes);
        prop_assert_eq!(totals(&table).1, totals(&earlier).0);
        for (by, _) in GroupBy::ALL {
            let mut sums = (SiteCounts::default(), SiteCounts::default());
            for part in group(&table, by, SiteFilter::All) {
                add(&mut sums.0, &part.now);
                add(&mut sums.1, &part.before);
            }
            prop_assert_eq!(sums, totals(&table));
        }
    }

    #[test]
    fn a_table_compared_with_itself_has_not_grown(table in any_table()) {
        let same = compare(&table, &table);
        prop_assert_eq!(by_text(&same), by_text(&table));
        prop_assert!(same.sites.iter().all(|site| site.now == site.before));
    }

    #[test]
    fn a_profile_gives_the_table_back(table in any_table()) {
        let back = export::pprof::decode(&export::pprof::encode(&table)).unwrap();
        prop_assert_eq!(by_text(&back), by_text(&table));
        let facts = |it: &SiteTable| (it.pid, it.taken_unix_ms, it.since_unix_ms, it.mode, it.sample_bytes, it.lost);
        prop_assert_eq!(facts(&back), facts(&table));
    }

    #[test]
    fn a_flame_graph_is_as_wide_as_the_whole(table in any_table()) {
        let flame = Flame::of(&table, Measure::Live, SiteFilter::All);
        let root = &flame.nodes[0];
        prop_assert_eq!(root.value, totals(&table).0.live_bytes as f64);
        for (index, node) in flame.nodes.iter().enumerate().skip(1) {
            prop_assert!((node.parent as usize) < index);
            prop_assert!((node.frame as usize) < flame.frames.len());
            let children = flame.nodes.iter().skip(1).filter(|it| it.parent as usize == index);
            prop_assert!(children.map(|it| it.value).sum::<f64>() <= node.value);
        }
    }

    #[test]
    fn no_table_makes_anything_fail(table in any_nonsense(), other in any_nonsense()) {
        let compared = compare(&table, &other);
        for table in [&table, &compared] {
            for (measure, _) in Measure::ALL {
                let page = export::page::encode(&Flame::of(table, measure, SiteFilter::Native)).unwrap();
                prop_assert!(page.contains("</html>"));
                let _ = export::collapsed::encode(table, measure, SiteFilter::All);
                for (by, _) in GroupBy::ALL {
                    let _ = SiteReport::of(table, &SiteChoice { by, measure, keep: SiteFilter::All, top: 5 });
                }
            }
            let _ = export::speedscope::encode(table);
            let _ = export::pprof::decode(&export::pprof::encode(table)).unwrap();
        }
    }

    #[test]
    fn no_bytes_make_the_reader_of_profiles_fail_badly(bytes: Vec<u8>) {
        let _ = export::pprof::decode(&bytes);
        let _ = export::pprof::decode(&[&[0x1f, 0x8b, 8, 0][..], &bytes].concat());
    }
}

#[test]
fn two_tables_are_compared_by_text_and_not_by_number() {
    let (load, cache) = ([place("main", 1), place("load", 12)], [place("main", 1), place("cache", 31)]);
    let object = AllocationDomain::Object;
    let earlier = table(&[(&load, object, kept(1000)), (&cache, object, kept(500))]);
    let later = table(&[(&cache, object, kept(9000))]);
    let compared = compare(&earlier, &later);
    let report = SiteReport::of(&compared, &SiteChoice { measure: Measure::Growth, top: 9, ..SiteChoice::default() });
    let grown: Vec<_> = report.rows.iter().map(|row| (row.places[0].function, row.value)).collect();
    assert_eq!(grown, [("cache", 8500.0), ("load", -1000.0)]);
    assert_eq!(report.total.growth_bytes, Some(7500));
    assert_eq!((report.rows[0].share, report.groups), (1.0, 2));
}

#[test]
fn the_rate_is_what_was_made_since_the_comparison() {
    let stack = [place("load", 12)];
    let counts = |made| SiteCounts { made_bytes: made, made_blocks: made / 10, ..kept(100) };
    let mut earlier = table(&[(&stack, AllocationDomain::Object, counts(1000))]);
    let later = table(&[(&stack, AllocationDomain::Object, counts(7000))]);
    let rate = |table: &SiteTable| {
        SiteReport::of(table, &SiteChoice { measure: Measure::Rate, top: 1, ..SiteChoice::default() }).rows[0].value
    };
    assert_eq!(rate(&later), 7000.0 / 60.0);
    earlier.taken_unix_ms = later.taken_unix_ms - 2000;
    assert_eq!(rate(&compare(&earlier, &later)), 3000.0);
}

#[test]
fn collapsed_stacks_begin_outside() {
    let sites = table(&[
        (&[place("main", 1), place("a;b\n", 12)], AllocationDomain::Object, kept(700)),
        (&[], AllocationDomain::Malloc, kept(30)),
    ]);
    let lines = export::collapsed::encode(&sites, Measure::Live, SiteFilter::All);
    assert_eq!(lines, "[no Python frame] 30\nmain (/srv/shop/app.py:1);a:b  (/srv/shop/app.py:12) 700\n");
    assert_eq!(export::collapsed::encode(&sites, Measure::Live, SiteFilter::Native), "[no Python frame] 30\n");
}

#[test]
fn a_name_cannot_leave_the_data_of_the_page() {
    let hostile = [place("</script><script>alert(1)</script><!--", 1)];
    let page = |sites: &SiteTable| export::page::encode(&Flame::of(sites, Measure::Live, SiteFilter::All)).unwrap();
    let harmless = page(&table(&[(&[place("f", 1)], AllocationDomain::Object, kept(700))]));
    let page = page(&table(&[(&hostile, AllocationDomain::Object, kept(700))]));
    assert_eq!(page.matches("</script").count(), harmless.matches("</script").count());
    assert_eq!(page.matches("<script").count(), harmless.matches("<script").count());
    assert_eq!(page.matches("<!--").count(), harmless.matches("<!--").count());
    assert!(page.contains("\\u003c/script>\\u003cscript>alert(1)"));
}

#[test]
fn speedscope_gets_growth_where_there_is_a_comparison() {
    let stack = [place("main", 1), place("load", 12)];
    let [earlier, later] = [100, 900].map(|bytes| table(&[(&stack, AllocationDomain::Object, kept(bytes))]));
    let file = export::speedscope::encode(&compare(&earlier, &later));
    let profiles: Vec<_> =
        file["profiles"].as_array().unwrap().iter().map(|it| (it["name"].as_str().unwrap(), &it["endValue"])).collect();
    assert_eq!(
        profiles,
        [("live bytes", &900.into()), ("allocated bytes", &800.into()), ("growth of live bytes", &800.into())]
    );
    assert_eq!(file["profiles"][0]["samples"], serde_json::json!([[0, 1]]));
    assert_eq!(file["shared"]["frames"][1]["name"], "load");
}

#[test]
fn stalls_are_merged_by_their_callers_and_end_with_their_cause() {
    let stack = |cause, frames: &[&str], count, total_ms| StallStack {
        cause,
        frames: frames.iter().map(|frame| (*frame).to_owned()).collect(),
        count,
        total_ms,
        max_ms: total_ms,
    };
    let stacks = [
        stack(Cause::Gc, &["/srv/shop/app.py:41 in basket", "/srv/shop/routes.py:77 in show"], 8, 900.0),
        stack(Cause::Python, &["/srv/shop/routes.py:77 in show"], 2, 100.0),
        stack(Cause::GilNative, &["libz.so"], 1, 50.0),
    ];
    let flame = Flame::of_stalls(42, 9000, 1000, &stacks);
    let shown = |node: &FlameNode| {
        let FlameFrame { function, file, line } = &flame.frames[node.frame as usize];
        (node.parent, format!("{function} {file}:{line}"), node.value, node.blocks)
    };
    let expected = [
        (0, "all :0".to_owned(), 1050.0, 11.0),
        (0, "show /srv/shop/routes.py:77".to_owned(), 1000.0, 10.0),
        (1, "basket /srv/shop/app.py:41".to_owned(), 900.0, 8.0),
        (2, "gc :0".to_owned(), 900.0, 8.0),
        (1, "python :0".to_owned(), 100.0, 2.0),
        (0, "libz.so :0".to_owned(), 50.0, 1.0),
        (5, "gil_native :0".to_owned(), 50.0, 1.0),
    ];
    assert_eq!(flame.nodes.iter().map(shown).collect::<Vec<_>>(), expected);
    let page = export::page::encode(&flame).unwrap();
    assert!(page.contains("\"measure\":\"stalls\"") && page.contains("basket"));
}
