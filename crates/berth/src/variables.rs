//! The environment variable of every option.

use clap::{
    Command,
    error::{ContextKind, ContextValue, Error},
};

/// Gives every option that has a long name a variable: `BERTH_SECURE_PORT` for `berth up --secure-port`; options of commands other than
/// those that start a server have the command's name in front: `BERTH_ROLLOUT_CONTEXT` for `berth rollout status --context`.
///
/// The command line takes precedence. An option that names its variable itself keeps it.
pub(crate) fn add(command: Command) -> Command {
    command.mut_subcommands(|command| {
        let prefix = match command.get_name() {
            "up" | "test" => "BERTH".to_owned(),
            name => format!("BERTH_{}", spelled(name)),
        };
        add_below(command, &prefix)
    })
}

fn add_below(command: Command, prefix: &str) -> Command {
    let command = command.mut_args(|arg| match arg.get_long() {
        Some(long) if arg.get_env().is_none() => {
            let name = format!("{prefix}_{}", spelled(long));
            // Hides the values: some are secret, and the help must be the same everywhere.
            arg.env(name).hide_env_values(true)
        }
        _ => arg,
    });
    command.mut_subcommands(|command| add_below(command, prefix))
}

fn spelled(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

/// The variable that may have caused an error, for a user who searches for it on the command line. `command` is built. `is_set` returns whether a
/// variable is set.
pub(crate) fn blamed(error: &Error, command: &Command, is_set: impl Fn(&str) -> bool) -> Option<String> {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg) else { return None };
    let mut left = vec![command];
    let mut names = Vec::new();
    while let Some(command) = left.pop() {
        left.extend(command.get_subcommands());
        names.extend(command.get_arguments().filter(|arg| arg.to_string() == *wrong).filter_map(|arg| arg.get_env()?.to_str()));
    }
    names.into_iter().find(|name| is_set(name)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Arguments;
    use clap::CommandFactory;

    fn variable(path: &[&str], option: &str) -> Option<String> {
        let mut command = &add(Arguments::command());
        for name in path {
            command = command.find_subcommand(name).expect("a command");
        }
        let arg = command.get_arguments().find(|arg| arg.get_long() == Some(option)).expect("an option");
        arg.get_env().and_then(|name| name.to_str()).map(str::to_owned)
    }

    #[test]
    fn variables_are_named_as_their_options() {
        for (path, option, name) in [
            (&["up"][..], "secure-port", "BERTH_SECURE_PORT"),
            (&["up"], "verbose", "BERTH_VERBOSE"),
            (&["kubeconfig"], "data-dir", "BERTH_DATA_DIR"),
            (&["kubeconfig"], "output", "BERTH_KUBECONFIG_OUTPUT"),
            (&["rollout"], "context", "BERTH_ROLLOUT_CONTEXT"),
            (&["rollout", "status"], "timeout", "BERTH_ROLLOUT_TIMEOUT"),
        ] {
            assert_eq!(variable(path, option).as_deref(), Some(name), "{path:?} --{option}");
        }
    }

    #[test]
    fn no_option_is_without_a_variable() {
        let command = add(Arguments::command());
        let mut left = vec![&command];
        while let Some(command) = left.pop() {
            left.extend(command.get_subcommands());
            for arg in command.get_arguments().filter(|arg| !arg.is_positional()) {
                assert!(arg.get_env().is_some(), "{} {arg}", command.get_name());
            }
        }
    }
}
