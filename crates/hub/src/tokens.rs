//! The tokens of a hub: made at its first start and kept in a file that only its owner can read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::process::is_same;

/// The file in the hub's folder.
const FILE: &str = "hub.tokens";

/// Who needs a token.
#[derive(Clone, Default)]
pub enum Access {
    /// Every request does. The tokens are those of the file in the hub's folder.
    #[default]
    Tokens,
    /// The same, with this token in place of the full one of the file.
    Given(String),
    /// No request does. The hub listens on loopback then.
    Open,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not derived: a token is never shown.
        to.write_str(match self {
            Self::Tokens => "Tokens",
            Self::Given(_) => "Given",
            Self::Open => "Open",
        })
    }
}

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenRole {
    /// To look, to order and to report.
    Full,
    /// To look.
    Read,
    /// To report, as agents on other machines do.
    Report,
}

/// The tokens of a hub.
#[derive(Clone)]
pub struct Tokens {
    /// May look, order and report.
    pub full: String,
    /// May look.
    pub read: String,
    /// May report.
    pub report: String,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Tokens")
    }
}

impl Tokens {
    /// The tokens of a folder, which are made where there are none. The error says what is wrong with the file.
    pub(crate) fn of_folder(folder: &Path) -> Result<Self, String> {
        let path = folder.join(FILE);
        let wrong = |what: String| format!("cannot use the tokens in {}: {what}", path.display());
        match File::open(&path) {
            Ok(file) => {
                let metadata = file.metadata().map_err(|error| wrong(error.to_string()))?;
                if metadata.mode() & 0o077 != 0 {
                    return Err(wrong(
                        "others can read them. Remove the file, and the next start makes new ones".to_owned(),
                    ));
                }
                let mut text = String::new();
                Read::take(file, 4096).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
                Self::parse(&text).ok_or_else(|| {
                    wrong("the file is damaged. Remove it, and the next start makes new ones".to_owned())
                })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::make()
                .and_then(|tokens| tokens.write(&path).map(|()| tokens))
                .map_err(|error| wrong(error.to_string())),
            Err(error) => Err(wrong(error.to_string())),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let of = |name: &str| {
            let token = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
            is_fit(token).then(|| token.to_owned())
        };
        Some(Self { full: of("full")?, read: of("read")?, report: of("report")? })
    }

    fn make() -> io::Result<Self> {
        let mut random = File::open("/dev/urandom")?;
        let mut token = || {
            let mut bytes = [0; 24];
            random.read_exact(&mut bytes)?;
            Ok::<_, io::Error>(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
        };
        Ok(Self { full: token()?, read: token()?, report: token()? })
    }

    /// Writes the file whole or not at all.
    fn write(&self, path: &Path) -> io::Result<()> {
        let draft = path.with_extension("tokens.new");
        let _ = fs::remove_file(&draft);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        write!(file, "full {}\nread {}\nreport {}\n", self.full, self.read, self.report)?;
        file.sync_all()?;
        fs::rename(draft, path)
    }

    /// What a token allows, if it is one. All are compared, in a time that does not tell how much was right.
    pub(crate) fn role(&self, given: &str) -> Option<TokenRole> {
        let roles = [(&self.full, TokenRole::Full), (&self.read, TokenRole::Read), (&self.report, TokenRole::Report)];
        let found = roles.map(|(token, role)| is_same(given.as_bytes(), token.as_bytes()).then_some(role));
        found.into_iter().flatten().next()
    }
}

/// Whether a token cannot be guessed, and fits into a header, a cookie and an address.
pub(crate) fn is_fit(token: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    (16..=256).contains(&token.len()) && token.bytes().all(plain)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn tokens_are_made_once_and_are_for_their_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let made = Tokens::of_folder(folder.path()).unwrap();
        let file = folder.path().join(FILE);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let again = Tokens::of_folder(folder.path()).unwrap();
        assert_eq!((&made.full, &made.read, &made.report), (&again.full, &again.read, &again.report));
        assert!(is_fit(&made.full) && made.full != made.read && made.read != made.report);
        assert_eq!(format!("{made:?}"), "Tokens");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Tokens::of_folder(folder.path()).unwrap_err().contains("others can read them"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&file, "full x\n").unwrap();
        assert!(Tokens::of_folder(folder.path()).unwrap_err().contains("damaged"));
    }

    #[test]
    fn a_token_has_one_role() {
        let token = |letter: &str| letter.repeat(20);
        let tokens = Tokens { full: token("f"), read: token("r"), report: token("p") };
        let roles = ["f", "r", "p", "x"].map(|letter| tokens.role(&token(letter)));
        assert_eq!(roles, [Some(TokenRole::Full), Some(TokenRole::Read), Some(TokenRole::Report), None]);
        assert_eq!((tokens.role(""), tokens.role(&"f".repeat(19)), tokens.role(&"f".repeat(21))), (None, None, None));
    }

    #[test]
    fn a_token_is_long_and_plain() {
        assert!(is_fit("0123456789abcdef") && !is_fit("short") && !is_fit("0123456789abcdef\r\nx"));
    }
}
