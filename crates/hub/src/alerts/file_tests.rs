//! Files with rules: what is read from them, and what is wrong with others.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

fn read(text: &str) -> Result<AlertFile, String> {
    let variable = |name: &str| (name == "HOOK").then(|| "https://hooks.example/services/SECRET".to_owned());
    parse(text, variable).map_err(|(at, message)| {
        let line = at.map(|at| text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1);
        format!("{}: {message}", line.map_or("?".to_owned(), |line| line.to_string()))
    })
}

/// What is wrong with a file, and in which line.
fn check(text: &str, line: &str, part: &str) {
    let error = read(text).unwrap_err();
    assert!(error.starts_with(&format!("{line}: ")) && error.contains(part), "{error}\n{text}");
    assert!(!error.contains("SECRET"), "{error}");
}

#[test]
fn a_file_is_read() {
    let file = read(
        "per_minute = 5\n\
         [channel.ops]\nslack = \"env:HOOK\"\n\
         [channel.pager]\ncommand = [\"/bin/page\", \"--urgent\"]\ntimeout = \"5s\"\n\
         [channel.own]\nwebhook = \"http://127.0.0.1:8080/x\"\nheaders = { Authorization = \"Bearer SECRET\" }\n\
         [[rule]]\nname = \"leak\"\nfinding = \"leak\"\nto = [\"ops\", \"log\"]\n\
         [[rule]]\nname = \"slow\"\np99_ms = 250\nfor = \"5m\"\nservice = \"shop*\"\n\
         [[rule]]\nname = \"near\"\nlimit_in = \"6h\"\nover = \"10m\"\n\
         [[rule]]\nname = \"grows\"\ngrowth_mb_h = 100\n\
         [[rule]]\nname = \"away\"\ngone = true\nservice = \"shop\"\n",
    )
    .unwrap();
    assert_eq!((file.per_minute, file.rules.len(), file.channels.len()), (5, 5, 4));
    let [leak, slow, near, grows, away] = &file.rules[..] else { panic!() };
    assert_eq!(leak.condition, AlertCondition::Finding { kinds: vec![AlertKind::Leak], confidence: LIKELY });
    assert_eq!((&leak.to[..], leak.for_ms, leak.clear_ms), (&["ops".to_owned(), "log".to_owned()][..], 0, 2 * MINUTE));
    assert_eq!(slow.condition, AlertCondition::P99 { ms: 250.0, over_ms: MINUTE });
    assert_eq!((slow.for_ms, slow.clear_ms, slow.to.len()), (5 * MINUTE, 5 * MINUTE, 4));
    assert_eq!(near.condition, AlertCondition::LimitIn { ms: 360 * MINUTE, over_ms: 10 * MINUTE });
    assert_eq!(grows.condition, AlertCondition::Growth { bytes_h: 1e8, over_ms: 30 * MINUTE });
    assert_eq!((&away.condition, away.for_ms, away.clear_ms), (&AlertCondition::Gone, MINUTE / 2, 0));
    // What is shown of channels has no secrets.
    let shown = format!("{file:?} {:?}", file.channels.values().map(AlertChannel::shown).collect::<Vec<_>>());
    assert!(!shown.contains("SECRET") && shown.contains("hooks.example"), "{shown}");
}

#[test]
fn the_example_of_the_documentation_is_right() {
    let page = include_str!("../../../../docs/alerts.md");
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let file = parse(example, |_| Some("https://hooks.example/x".to_owned())).unwrap();
    assert_eq!((file.rules.len(), file.channels.len()), (4, 4));
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let rule = |rest: &str| format!("[[rule]]\nname = \"a\"\n{rest}\n");
    check("", "?", "no rule");
    check("[[rule]]\nname = ", "2", "");
    check(&rule("p99 = 5"), "3", "unknown field `p99`");
    check(&rule(""), "1", "a rule needs one of");
    check(&rule("p99_ms = 5\ngrowth_mb_h = 5"), "1", "a rule needs one of");
    check(&rule("finding = \"leek\""), "3", "unknown variant `leek`");
    check(&rule("finding = [\"leak\", \"plateau\"]"), "3", "nothing is the matter");
    check(&rule("finding = []"), "3", "names no kind");
    check(&rule("finding = 5"), "3", "a text or a list");
    check(&rule("finding = \"leak\"\nconfidence = 60"), "4", "between 0 and 1");
    check(&rule("p99_ms = -5"), "3", "above 0");
    check(&rule("p99_ms = nan"), "3", "above 0");
    check(&rule("p99_ms = 5\nfor = \"5\""), "4", "not a time");
    check(&rule("p99_ms = 5\nover = \"2h\""), "4", "between 5s and 1h");
    check(&rule("p99_ms = 5\nconfidence = 0.5"), "4", "belongs to a rule with `finding`");
    check(&rule("finding = \"leak\"\nover = \"1m\""), "4", "belongs to");
    check(&rule("limit_in = \"1s\""), "3", "between 1m and 90d");
    check(&rule("gone = true"), "1", "needs `service`");
    check(&rule("gone = false\nservice = \"x\""), "3", "only be true");
    check(&rule("p99_ms = 5\nto = \"ops\""), "4", "no channel ops, only log");
    check(&format!("{0}{0}", rule("p99_ms = 5")), "5", "two rules a");
    check("[[rule]]\nname = \"a b\"\np99_ms = 5", "2", "needs a name");
    check("per_minute = 0\n[[rule]]\nname = \"a\"\np99_ms = 5", "1", "between 1 and 600");
    let channel = |rest: &str| format!("[channel.ops]\n{rest}\n{}", rule("p99_ms = 5"));
    check(&channel(""), "1", "one of webhook, slack and command");
    check(&channel("webhook = \"ftp://x/SECRET\""), "2", "must look like");
    check(&channel("webhook = \"https://user:SECRET@x/\""), "2", "headers");
    check(&channel("webhook = \"env:NOPE\""), "2", "NOPE is not set");
    check(&channel("command = []"), "2", "empty");
    check(&channel("webhook = \"http://x\"\ntimeout = \"5h\""), "3", "between 1s and 60s");
    check(&channel("webhook = \"http://x\"\nheaders = { \"a b\" = \"SECRET\" }"), "2", "header");
    check("[channel.log]\nwebhook = \"http://x\"\n", "1", "`log` is there already");
    check("[channel.ops]\nwebhook = \"http://x/SECRET\" SECRET\n", "2", "");
}
