//! Output from the definition of the command line: completions, man pages, and the page of all commands.

use crate::cli::{self, Completion, Man};
use clap::Command;
use std::{
    error::Error,
    fmt::Write as _,
    fs,
    io::{self, Write},
};

/// The width of the page of all commands, in characters.
const PAGE_WIDTH: usize = 120;

/// Prints the completion script of a shell.
pub(crate) fn complete(options: &Completion) -> io::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut cli::described(), "berth", &mut script);
    io::stdout().write_all(&script)
}

/// Writes a man page for each command into the folder.
pub(crate) fn write_man_pages(options: &Man) -> Result<(), Box<dyn Error>> {
    let folder = options.folder.display();
    fs::create_dir_all(&options.folder).map_err(|error| format!("cannot create the folder {folder}: {error}"))?;
    clap_mangen::generate_to(cli::described(), &options.folder)
        .map_err(|error| format!("cannot write man pages into {folder}: {error}"))?;
    Ok(())
}

/// Prints the page of all commands, which is `docs/commands.md`.
pub(crate) fn print_page() -> io::Result<()> {
    io::stdout().write_all(page().as_bytes())
}

fn page() -> String {
    let mut page = "# All commands\n\n\
        The `--help` text of each command. Generated: after a change, run `cargo run -- commands-page > docs/commands.md`. A test fails if this page \
        is stale.\n"
        .to_owned();
    let mut root = cli::described().term_width(PAGE_WIDTH);
    root.build();
    add_sections(&mut root, &mut page);
    page
}

/// Depth first, in the order of the help, without hidden commands and without `help` itself.
fn add_sections(command: &mut Command, page: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    let help = command.render_long_help().to_string();
    let trimmed: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## {name}\n\n```text\n{}\n```\n", trimmed.join("\n").trim_end());
    for below in command.get_subcommands_mut().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
        add_sections(below, page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_all_commands_is_not_stale() {
        let kept = include_str!("../../../docs/commands.md");
        assert!(kept == page(), "docs/commands.md is stale; run `cargo run -- commands-page > docs/commands.md`");
    }

    #[test]
    fn every_command_has_an_example() {
        let mut root = cli::described();
        root.build();
        let mut left = vec![&root];
        while let Some(command) = left.pop() {
            left.extend(command.get_subcommands().filter(|below| below.get_name() != "help"));
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Example") && after.contains("berth "), "{}: {after:?}", command.get_name());
        }
    }
}
