//! Who may do what: one table (contract 3).

use super::value::named_values;

named_values! {
    /// Everything that a caller can ask for, as it stands in "may not …".
    Action {
        ReadServiceState = "read the state of the service",
        ReadResult = "read a result file",
        ReadRegistry = "read the registry",
        ListPublisherNodes = "list the nodes of a publisher",
        ReadOwnAccount = "read an account",
        CreatePublisher = "create a publisher",
        UpdatePublisher = "update this publisher",
        IssuePublisherToken = "issue tokens of this publisher",
        CreateNode = "create nodes of this publisher",
        PublishVersion = "publish versions for this publisher",
        ReviseVersion = "change versions of this publisher",
        SubmitImageTask = "submit image tasks",
        ReadImageTask = "read image tasks",
        Administer = "administer the service",
    }
}

/// What a caller is to the thing that a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// Nobody known.
    Anonymous,
    /// A user who is no member of the publisher, or of none because none is concerned.
    User,
    /// A member of the publisher.
    Member,
    /// An owner of the publisher.
    Owner,
    /// A personal access token of the publisher.
    OwnToken,
    /// A personal access token of another publisher, or of any where none is concerned.
    OtherToken,
    /// An administrator.
    Admin,
}

impl Standing {
    /// Every standing, in the order of the table's columns.
    pub const ALL: [Self; 7] =
        [Self::Anonymous, Self::User, Self::Member, Self::Owner, Self::OwnToken, Self::OtherToken, Self::Admin];
}

impl Action {
    /// Whether a caller of this standing may do it.
    #[must_use]
    pub fn allows(self, standing: Standing) -> bool {
        self.row()[standing as usize]
    }

    /// One row of the table. That a user sees only own tasks is not decided here: a task of somebody else is not found.
    #[rustfmt::skip]
    #[expect(clippy::match_same_arms, reason = "a table has a row for each action")]
    fn row(self) -> [bool; Standing::ALL.len()] {
        const Y: bool = true;
        const N: bool = false;
        match self {
            //                            Anonymous  User  Member  Owner  OwnToken  OtherToken  Admin
            Self::ReadServiceState    => [Y,         Y,    Y,      Y,     Y,        Y,          Y],
            Self::ReadResult          => [Y,         Y,    Y,      Y,     Y,        Y,          Y],
            Self::ReadRegistry        => [Y,         Y,    Y,      Y,     Y,        Y,          Y],
            Self::ListPublisherNodes  => [N,         Y,    Y,      Y,     Y,        Y,          Y],
            Self::ReadOwnAccount      => [N,         Y,    Y,      Y,     N,        N,          Y],
            Self::CreatePublisher     => [N,         Y,    Y,      Y,     N,        N,          Y],
            Self::UpdatePublisher     => [N,         N,    N,      Y,     N,        N,          Y],
            Self::IssuePublisherToken => [N,         N,    N,      Y,     N,        N,          Y],
            Self::CreateNode          => [N,         N,    Y,      Y,     Y,        N,          Y],
            Self::PublishVersion      => [N,         N,    Y,      Y,     Y,        N,          Y],
            Self::ReviseVersion       => [N,         N,    Y,      Y,     Y,        N,          Y],
            Self::SubmitImageTask     => [N,         Y,    Y,      Y,     N,        N,          Y],
            Self::ReadImageTask       => [N,         Y,    Y,      Y,     N,        N,          Y],
            Self::Administer          => [N,         N,    N,      N,     N,        N,          Y],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_administrator_may_do_everything() {
        assert!(Action::ALL.iter().all(|action| action.allows(Standing::Admin)));
    }

    #[test]
    fn what_anonymous_callers_may_do_everybody_may() {
        for action in Action::ALL.iter().filter(|action| action.allows(Standing::Anonymous)) {
            assert!(Standing::ALL.iter().all(|standing| action.allows(*standing)), "{action:?}");
        }
    }

    #[test]
    fn an_owner_may_do_whatever_a_member_may_and_a_member_whatever_a_user_may() {
        let implies = |less, more| Action::ALL.iter().all(|action| !action.allows(less) || action.allows(more));
        assert!(implies(Standing::User, Standing::Member));
        assert!(implies(Standing::Member, Standing::Owner));
        assert!(implies(Standing::OtherToken, Standing::OwnToken));
    }

    #[test]
    fn a_personal_access_token_reads_the_registry_and_writes_nodes_and_nothing_else() {
        let allowed: Vec<_> = Action::ALL.iter().copied().filter(|action| action.allows(Standing::OwnToken)).collect();
        assert_eq!(
            allowed,
            [
                Action::ReadServiceState,
                Action::ReadResult,
                Action::ReadRegistry,
                Action::ListPublisherNodes,
                Action::CreateNode,
                Action::PublishVersion,
                Action::ReviseVersion,
            ]
        );
    }

    #[test]
    fn only_owners_and_administrators_change_a_publisher() {
        for action in [Action::UpdatePublisher, Action::IssuePublisherToken] {
            let allowed: Vec<_> = Standing::ALL.into_iter().filter(|standing| action.allows(*standing)).collect();
            assert_eq!(allowed, [Standing::Owner, Standing::Admin], "{action:?}");
        }
    }
}
