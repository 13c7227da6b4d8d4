//! The programs of other servers and load generators: the option `--program`, and the search in PATH.

use std::path::PathBuf;

/// Directories where Debian installs servers. They are not in a user's PATH.
const SYSTEM_DIRS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// An error for a program that was not found.
#[derive(Debug, thiserror::Error)]
#[error("{program} is not installed; install it with: {install}")]
pub struct MissingProgramError {
    pub program: String,
    install: &'static str,
}

/// Returns the path of a program: from `programs` if it is there, else from PATH.
pub fn find_program(
    programs: &[(String, PathBuf)],
    program: &str,
    install: &'static str,
) -> Result<PathBuf, MissingProgramError> {
    if let Some((_, path)) = programs.iter().find(|(name, _)| name == program) {
        return Ok(path.clone());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(SYSTEM_DIRS.map(PathBuf::from));
    let mut files = directories.map(|directory| directory.join(program));
    let found = files.find(|file| file.is_file());
    found.ok_or(MissingProgramError { program: program.to_owned(), install })
}

/// Parses the value of `--program`, NAME=FILE. The file must exist.
pub fn parse_program(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("must have the form NAME=FILE")?;
    let file = std::fs::canonicalize(file).map_err(|error| format!("{file}: {error}"))?;
    Ok((name.to_owned(), file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_an_error_with_its_install_command() {
        let programs = [("a".to_owned(), PathBuf::from("/b"))];
        assert_eq!(find_program(&programs, "a", "").expect("the given path"), PathBuf::from("/b"));
        let missing = find_program(&programs, "no-such-program", "apt-get install it").expect_err("no file");
        assert_eq!(
            missing.to_string(),
            "no-such-program is not installed; install it with: apt-get install it"
        );
    }

    #[test]
    fn the_option_names_a_program_and_its_file() {
        assert_eq!(parse_program("a=/"), Ok(("a".to_owned(), PathBuf::from("/"))));
        assert!(parse_program("a").is_err() && parse_program("a=/no-such-file").is_err());
    }
}
