//! What went wrong while the agent ran, in words: each text once, and only so many. Some hold what a program's exceptions
//! say, which may be long and different each time.

/// Texts that are kept; the first ones tell most.
const MOST: usize = 32;

/// Characters of each.
const LONGEST: usize = 300;

/// The texts, in the order in which they first came.
#[derive(Debug, Default)]
pub(crate) struct Troubles {
    texts: Vec<String>,
    left_out: u64,
    /// The last one that was left out, so that one that comes again and again counts once.
    last_left_out: String,
}

impl Troubles {
    /// Adds a text, once.
    pub(crate) fn add(&mut self, mut text: String) {
        if let Some((end, _)) = text.char_indices().nth(LONGEST) {
            text.truncate(end);
            text.push('…');
        }
        if self.texts.contains(&text) {
            return;
        }
        if self.texts.len() < MOST {
            self.texts.push(text);
        } else if self.last_left_out != text {
            self.left_out += 1;
            self.last_left_out = text;
        }
    }

    /// All of them, with a last line about those that are not there.
    pub(crate) fn report(&self) -> impl Iterator<Item = String> {
        let left_out = (self.left_out > 0).then(|| format!("{} more messages are not shown", self.left_out));
        self.texts.iter().cloned().chain(left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_there_once() {
        let mut troubles = Troubles::default();
        ["a", "b", "a"].iter().for_each(|text| troubles.add((*text).to_owned()));
        assert_eq!(troubles.report().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_flood_of_long_texts_is_cut_and_counted() {
        let mut troubles = Troubles::default();
        for number in 0..10_000 {
            let text = format!("{number}{}", "ß".repeat(10_000));
            troubles.add(text.clone());
            troubles.add(text);
        }
        let report: Vec<String> = troubles.report().collect();
        assert_eq!(report.len(), MOST + 1);
        assert!(report.iter().all(|text| text.chars().count() <= LONGEST + 1));
        assert_eq!(report[MOST], "9968 more messages are not shown");
    }
}
