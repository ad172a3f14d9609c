//! Places in code, as short as a sentence can name them.

/// Folders of installed code: a path below them says which package it is of.
const INSTALLED: [&str; 2] = ["/site-packages/", "/dist-packages/"];

/// A place with its path shortened: `/srv/shop/app.py:9 in load` is `app.py:9 in load`.
///
/// A file of an installed package keeps its path below the folder of packages. Of other files the last component is
/// enough, unless `others` has another file of the same name, or the name says nothing by itself (`__init__.py`).
pub(crate) fn short<'a>(site: &str, others: impl Iterator<Item = &'a str> + Clone) -> String {
    let (path, rest) = split(site);
    if let Some(at) = INSTALLED.iter().find_map(|folder| path.rfind(folder).map(|at| at + folder.len())) {
        return format!("{}{rest}", &path[at..]);
    }
    let mut starts = path.rmatch_indices('/').map(|(at, _)| at + 1);
    let enough = |start: usize| {
        let end = &path[start..];
        let same = |other: &str| other == end || other.strip_suffix(end).is_some_and(|front| front.ends_with('/'));
        !end.starts_with("__") && !others.clone().map(|other| split(other).0).any(|other| other != path && same(other))
    };
    let start = starts.find(|start| enough(*start)).unwrap_or(0);
    format!("{}{rest}", &path[start..])
}

/// The path of a place.
pub(crate) fn file(site: &str) -> &str {
    split(site).0
}

/// The path of a place, and what follows it: `:9 in load`.
fn split(site: &str) -> (&str, &str) {
    let is_line = |at: usize| {
        let rest = site[at + 1..].trim_start_matches(|digit: char| digit.is_ascii_digit());
        rest.len() < site.len() - at - 1 && (rest.is_empty() || rest.starts_with(' '))
    };
    let at = site.match_indices(':').map(|(at, _)| at).find(|at| is_line(*at));
    at.map_or((site, ""), |at| site.split_at(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(site: &str, others: &[&str], expected: &str) {
        assert_eq!(short(site, others.iter().copied()), expected);
    }

    #[test]
    fn a_path_is_as_short_as_it_can_be() {
        check("/srv/shop/app.py:9 in load", &[], "app.py:9 in load");
        check(
            "/srv/shop/app.py:9 in load",
            &["/srv/shop/app.py:35 in slow", "/srv/napp.py:1 in f"],
            "app.py:9 in load",
        );
        check("/srv/shop/image.py:12 in resize → vips", &["/srv/shop/app.py:9"], "image.py:12 in resize → vips");
    }

    #[test]
    fn files_of_the_same_name_are_told_apart() {
        check("/srv/shop/app.py:9 in load", &["/srv/stock/app.py:35 in slow"], "shop/app.py:9 in load");
        check("/a/x/app.py:9 in load", &["/b/x/app.py:35 in slow"], "a/x/app.py:9 in load");
        check("/x/app.py:9 in load", &["/b/x/app.py:35 in slow"], "/x/app.py:9 in load");
        check("/srv/shop/__init__.py:9 in load", &[], "shop/__init__.py:9 in load");
    }

    #[test]
    fn installed_code_says_of_which_package_it_is() {
        let site = "/srv/venv/lib/python3.12/site-packages/django/core/handlers/base.py:113 in get_response";
        check(site, &[], "django/core/handlers/base.py:113 in get_response");
    }

    #[test]
    fn what_is_no_path_stays() {
        for site in ["<string>:5 in slow", "libvips.so.42", "", "re.Pattern.match", "a:b:c", "é:9"] {
            check(site, &["<string>:9 in slow"], site);
        }
        check("/srv/a:b/app.py", &[], "app.py");
    }
}
