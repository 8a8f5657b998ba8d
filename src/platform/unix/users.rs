//! Owns the names of this machine's users.

use std::collections::HashMap;

/// The names of this machine's users, as sysinfo tells them. Those of a directory service (LDAP) are not known: they show as numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Users {
    names: HashMap<u32, String>,
}

impl Users {
    pub(crate) fn read() -> Users {
        let Ok(users) = sysinfo::Users::new_with_refreshed_list() else { return Users::default() };
        let mut names = HashMap::new();
        // The first entry of an id wins, as in getpwuid(3).
        for user in users.iter() {
            names.entry(**user.id()).or_insert_with(|| user.name().to_owned());
        }
        Users { names }
    }

    /// The user's name, or the number where it has none.
    pub(crate) fn name(&self, uid: u32) -> String {
        self.names.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }
}

/// The name of the user who runs this program.
pub(crate) fn user_name() -> String {
    Users::read().name(rustix::process::getuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_has_a_name_and_nobody_else_has_a_number() {
        assert_eq!(Users::read().name(0), "root");
        assert_eq!(Users::read().name(4_000_000_000), "4000000000");
    }
}
