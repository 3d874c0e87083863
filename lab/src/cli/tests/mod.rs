//! The command line as a whole.

use super::*;
use clap::CommandFactory;

#[test]
fn the_command_line_is_well_formed() {
    Line::command().debug_assert();
}

#[test]
fn every_command_has_a_description_and_takes_json() {
    // Its words are read by another program, whose test asks for the same.
    let others = |command: &&clap::Command| !matches!(command.get_name(), "check" | "predict");
    for command in Line::command().get_subcommands().filter(others) {
        assert!(command.get_about().is_some(), "{} has no description", command.get_name());
        let takes_json = |c: &clap::Command| c.get_arguments().any(|a| a.get_long() == Some("json"));
        let mut parts = command.get_subcommands().filter(|part| part.get_name() != "help");
        let json = takes_json(command) || (command.has_subcommands() && parts.all(takes_json));
        assert!(json, "{} has no --json", command.get_name());
    }
}

/// Every page of help there is, by the command's name.
fn help_pages(command: &mut clap::Command, pages: &mut Vec<(String, String)>) {
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_string();
    pages.push((name.clone(), command.render_help().to_string()));
    pages.push((name, command.render_long_help().to_string()));
    command.get_subcommands_mut().for_each(|part| help_pages(part, pages));
}

#[test]
fn help_fits_a_terminal_of_80_columns() {
    let (mut line, mut pages) = (Line::command(), Vec::new());
    line.build();
    help_pages(&mut line, &mut pages);
    assert!(pages.len() > 30);
    for (name, page) in pages {
        for row in page.lines() {
            assert!(row.chars().count() <= 80, "{name} --help: {row}");
        }
    }
}
