//! What an interrupted training leaves behind, so that it can go on: the state of each family after its last epoch.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use neurogc_neural::Family;

/// The file that says what the states belong to.
const ABOUT: &str = "about";

/// A folder beside the model's file, which goes away when training is over.
#[derive(Debug)]
pub(super) struct TrainingFolder {
    folder: PathBuf,
}

impl TrainingFolder {
    /// The folder of a model's file, emptied if it is about something else.
    pub(super) fn open(model: &Path, about: &str, fresh: bool) -> io::Result<Self> {
        let mut name = model.as_os_str().to_owned();
        name.push(".progress");
        let store = Self { folder: name.into() };
        let same = fs::read_to_string(store.folder.join(ABOUT)).is_ok_and(|found| found == about);
        if fresh || !same {
            store.remove();
        }
        fs::create_dir_all(&store.folder)?;
        fs::write(store.folder.join(ABOUT), about)?;
        Ok(store)
    }

    /// The state of a family.
    pub(super) fn state(&self, family: Family) -> Option<Vec<u8>> {
        fs::read(self.path(family)).ok()
    }

    /// Keeps the state of a family. It is renamed into place: an interrupt leaves the one before.
    pub(super) fn keep(&self, family: Family, state: &[u8]) -> io::Result<()> {
        let new = self.folder.join("new");
        fs::write(&new, state)?;
        fs::rename(new, self.path(family))
    }

    /// Takes everything away.
    pub(super) fn remove(&self) {
        let _ = fs::remove_dir_all(&self.folder);
    }

    fn path(&self, family: Family) -> PathBuf {
        self.folder.join(family.name())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn states_are_found_again_unless_they_are_about_something_else() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model.safetensors");
        let store = TrainingFolder::open(&model, "one", false).unwrap();
        store.keep(Family::Gru, b"state").unwrap();
        assert_eq!(
            TrainingFolder::open(&model, "one", false).unwrap().state(Family::Gru).as_deref(),
            Some(&b"state"[..])
        );
        assert_eq!(TrainingFolder::open(&model, "one", true).unwrap().state(Family::Gru), None);
        store.keep(Family::Gru, b"state").unwrap();
        let other = TrainingFolder::open(&model, "two", false).unwrap();
        assert_eq!(other.state(Family::Gru), None);
        other.remove();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
