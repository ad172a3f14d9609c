//! What `/proc` says about a process that may not be ours.

use std::fs;

/// A living process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LivingProcess {
    /// The user whose rights it has.
    pub(crate) uid: u32,
}

/// Looks a process up. One that has ended and only waits to be reaped counts as gone.
pub(crate) fn look_up(pid: u32) -> Option<LivingProcess> {
    parse(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn parse(status: &str) -> Option<LivingProcess> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    if field("State:")?.trim_start().starts_with(['Z', 'X']) {
        return None;
    }
    Some(LivingProcess { uid: field("Uid:")?.split_whitespace().nth(1)?.parse().ok()? })
}

/// Takes a process's number from the command line.
pub(crate) fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "it must be the number of a process; `neurogc ps` lists those with an agent".to_owned())
}

/// The user that this command runs as.
pub(crate) fn own_uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// A user's name, or the number where there is none.
pub(crate) fn user_name(uid: u32) -> String {
    match nix::unistd::User::from_uid(uid.into()) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
}

/// Reads a small file of the kernel's, `None` where it does not exist or is not for us.
pub(crate) fn kernel_text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_ours() {
        assert_eq!(look_up(std::process::id()), Some(LivingProcess { uid: own_uid() }));
    }

    #[test]
    fn the_effective_user_counts() {
        let text = "Name:\tx\nState:\tS (sleeping)\nUid:\t1000\t33\t1000\t1000\n";
        assert_eq!(parse(text), Some(LivingProcess { uid: 33 }));
    }

    #[test]
    fn a_zombie_is_gone() {
        assert_eq!(parse("Name:\tx\nState:\tZ (zombie)\nUid:\t0\t0\t0\t0\n"), None);
    }

    #[test]
    fn an_unknown_user_is_a_number() {
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(3_999_999_999), "3999999999");
    }
}
