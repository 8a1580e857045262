//! Commands for users of a service: node authors, and everyone who installs nodes or runs jobs. They use the public API
//! of any service, and need neither its settings nor its data directory.

pub(super) mod cluster_status;
mod compare;
mod complete;
mod install;
mod job;
mod login;
mod login_file;
mod manifest;
mod node_ref;
mod node_view;
mod package;
mod publish;
mod run;
mod search;
pub(super) mod service;
mod show;
mod task;
mod terminal;
mod token;

use clap::Subcommand;

use super::CliError;

#[derive(Debug, Subcommand)]
pub(super) enum ClientCommand {
    /// Sign in to a service: check a token and store it
    #[command(after_help = login::LOGIN_HELP)]
    Login(login::LoginArguments),
    /// Forget the token
    #[command(after_help = login::LOGOUT_HELP)]
    Logout,
    /// Print the user, the role and the service
    #[command(after_help = login::WHOAMI_HELP)]
    Whoami(service::ServiceArguments),
    /// List, create and revoke access tokens of a publisher
    #[command(subcommand, after_help = token::HELP)]
    Token(token::PublisherTokenCommand),
    /// Search the nodes of the registry
    #[command(after_help = search::SEARCH_HELP)]
    Search(search::SearchArguments),
    /// List the nodes of the registry, with filters and in any order
    #[command(after_help = search::LIST_HELP)]
    List(search::ListArguments),
    /// Show a node and its versions
    #[command(after_help = show::HELP)]
    Show(show::ShowNodeArguments),
    /// Compare two versions of a node, or two nodes
    #[command(after_help = compare::HELP)]
    Compare(compare::CompareArguments),
    /// Download a node and unpack it
    #[command(after_help = install::INSTALL_HELP)]
    Install(install::InstallArguments),
    /// Write the manifest of a new node
    #[command(after_help = publish::INIT_HELP)]
    Init(publish::InitArguments),
    /// Pack the files of a node
    #[command(after_help = publish::PACK_HELP)]
    Pack(publish::PackArguments),
    /// Publish a version of a node
    #[command(after_help = publish::PUBLISH_HELP)]
    Publish(publish::PublishArguments),
    /// Run a job and save its result
    #[command(after_help = run::HELP)]
    Run(run::RunArguments),
    /// List tasks
    #[command(after_help = task::TASKS_HELP)]
    Tasks(task::TasksArguments),
    /// Follow a task to its end
    #[command(after_help = task::WATCH_HELP)]
    Watch(task::WatchArguments),
}

pub(super) fn run(command: ClientCommand) -> Result<(), CliError> {
    match command {
        ClientCommand::Login(arguments) => login::login(&arguments),
        ClientCommand::Logout => login::logout(),
        ClientCommand::Whoami(arguments) => login::whoami(&arguments),
        ClientCommand::Token(command) => token::run(&command),
        ClientCommand::Search(arguments) => search::search(&arguments),
        ClientCommand::List(arguments) => search::list(&arguments),
        ClientCommand::Show(arguments) => show::show(&arguments),
        ClientCommand::Compare(arguments) => compare::compare(&arguments),
        ClientCommand::Install(arguments) => install::install(&arguments),
        ClientCommand::Init(arguments) => publish::init(&arguments),
        ClientCommand::Pack(arguments) => publish::pack(&arguments),
        ClientCommand::Publish(arguments) => publish::publish(&arguments),
        ClientCommand::Run(arguments) => run::run(arguments),
        ClientCommand::Tasks(arguments) => task::tasks(&arguments),
        ClientCommand::Watch(arguments) => task::watch(&arguments),
    }
}
