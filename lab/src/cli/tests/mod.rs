//! The command line as a whole.

use super::*;
use clap::CommandFactory;

#[test]
fn the_command_line_is_well_formed() {
    Line::command().debug_assert();
}

#[test]
fn every_command_has_a_description_and_takes_json() {
    for command in Line::command().get_subcommands() {
        assert!(command.get_about().is_some(), "{} has no description", command.get_name());
        let takes_json = |c: &clap::Command| c.get_arguments().any(|a| a.get_long() == Some("json"));
        let mut parts = command.get_subcommands().filter(|part| part.get_name() != "help");
        let json = takes_json(command) || (command.has_subcommands() && parts.all(takes_json));
        assert!(json, "{} has no --json", command.get_name());
    }
}
