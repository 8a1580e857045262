//! The permission table (contract 3).

use super::value::named_values;

named_values! {
    /// Actions, with the text that completes "may not …".
    Action {
        ReadServiceState = "read the state of the service",
        ReadResult = "read a result file",
        ReadRegistry = "read the registry",
        ListPublisherNodes = "list the nodes of a publisher",
        ReadOwnAccount = "read an account",
        EraseOwnAccount = "erase an account",
        CreatePublisher = "create a publisher",
        UpdatePublisher = "update this publisher",
        DeletePublisher = "delete this publisher",
        ManageMembers = "manage the members of this publisher",
        RemoveMember = "remove members of this publisher",
        ManagePublisherTokens = "manage the tokens of this publisher",
        ManagePublisherWebhooks = "manage the webhooks of this publisher",
        CreateNode = "create nodes of this publisher",
        ReviseNode = "change nodes of this publisher",
        TranslateNode = "translate nodes of this publisher",
        DeleteNode = "delete nodes of this publisher",
        PublishVersion = "publish versions for this publisher",
        ReviseVersion = "change versions of this publisher",
        DeleteVersion = "delete versions of this publisher",
        UploadArchive = "upload an archive",
        ReviewNode = "review nodes",
        CreateFile = "upload input files",
        UploadFile = "use an upload link of an input file",
        SubmitImageTask = "submit image tasks",
        ReadImageTask = "read image tasks",
        SubmitVideoTask = "submit video tasks",
        ReadVideoTask = "read video tasks",
        CancelVideoTask = "cancel video tasks",
        ReadCredits = "read the credits spent",
        GenerateMusic = "generate music",
        ReadTask = "read tasks",
        CancelTask = "cancel tasks",
        RedeliverCallback = "redeliver webhooks",
        ManageWebhookSecret = "manage the webhook secret",
        ManageOwnTokens = "manage the tokens of an account",
        ReceiveVendorWebhook = "report a vendor update of a task",
        Administer = "administer the service",
    }
}

named_values! {
    /// Scope of a token: the part of its holder's permissions that it has.
    TokenScope {
        /// All permissions.
        All = "all",
        /// Permissions to read.
        ReadOnly = "read_only",
    }
}

impl TokenScope {
    /// Returns `true` if a token with this scope may perform the action. Requests that only read ignore the scope.
    #[must_use]
    pub fn allows(self, action: Action) -> bool {
        match self {
            Self::All => true,
            Self::ReadOnly => !action.is_write(),
        }
    }
}

/// Role of a caller towards the resource of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallerRole {
    /// An unauthenticated caller.
    Anonymous,
    /// A user who is not a member of the publisher, or any user if the request concerns no publisher.
    User,
    /// A member of the publisher.
    Member,
    /// An owner of the publisher.
    Owner,
    /// A personal access token of the publisher.
    OwnToken,
    /// A personal access token of another publisher, or any token if the request concerns no publisher.
    OtherToken,
    /// An administrator.
    Admin,
}

impl CallerRole {
    /// All roles, in the order of the table's columns.
    pub const ALL: [Self; 7] =
        [Self::Anonymous, Self::User, Self::Member, Self::Owner, Self::OwnToken, Self::OtherToken, Self::Admin];
}

impl Action {
    /// Returns `true` if a caller with this role may perform the action.
    #[must_use]
    pub fn allows(self, role: CallerRole) -> bool {
        self.row()[role as usize]
    }

    /// Returns `true` if the action submits a media task.
    #[must_use]
    pub fn is_submission(self) -> bool {
        matches!(self, Self::SubmitImageTask | Self::SubmitVideoTask | Self::GenerateMusic)
    }

    /// Returns `true` if the action changes something. Banned callers may not perform such actions (contract 3).
    #[must_use]
    pub fn is_write(self) -> bool {
        let reads = matches!(
            self,
            Self::ReadServiceState
                | Self::ReadResult
                | Self::ReadRegistry
                | Self::ListPublisherNodes
                | Self::ReadOwnAccount
                | Self::ReadImageTask
                | Self::ReadVideoTask
                | Self::ReadCredits
                | Self::ReadTask
        );

        !reads
    }

    /// Returns the row of the table. Three rules are enforced elsewhere:
    ///
    /// - Users see only their own tasks; other tasks are not found.
    /// - Members can remove only themselves.
    /// - A setting can exclude anonymous callers from video tasks.
    #[rustfmt::skip]
    #[expect(clippy::match_same_arms, reason = "a table has a row for each action")]
    fn row(self) -> [bool; CallerRole::ALL.len()] {
        const Y: bool = true;
        const N: bool = false;
        match self {
            //                              Anonymous  User  Member  Owner  OwnToken  OtherToken  Admin
            Self::ReadServiceState      => [Y,         Y,    Y,      Y,     Y,        Y,          Y],
            Self::ReadResult            => [Y,         Y,    Y,      Y,     Y,        Y,          Y],
            Self::ReadRegistry          => [Y,         Y,    Y,      Y,     Y,        Y,          Y],
            Self::ListPublisherNodes    => [N,         Y,    Y,      Y,     Y,        Y,          Y],
            Self::ReadOwnAccount        => [N,         Y,    Y,      Y,     N,        N,          Y],
            Self::EraseOwnAccount       => [N,         Y,    Y,      Y,     N,        N,          Y],
            Self::CreatePublisher       => [N,         Y,    Y,      Y,     N,        N,          Y],
            Self::UpdatePublisher       => [N,         N,    N,      Y,     N,        N,          Y],
            Self::DeletePublisher       => [N,         N,    N,      Y,     N,        N,          Y],
            Self::ManageMembers         => [N,         N,    N,      Y,     N,        N,          Y],
            Self::RemoveMember          => [N,         N,    Y,      Y,     N,        N,          Y],
            Self::ManagePublisherTokens => [N,         N,    N,      Y,     N,        N,          Y],
            Self::ManagePublisherWebhooks => [N,       N,    N,      Y,     N,        N,          Y],
            Self::CreateNode            => [N,         N,    Y,      Y,     Y,        N,          Y],
            Self::ReviseNode            => [N,         N,    Y,      Y,     Y,        N,          Y],
            Self::TranslateNode         => [N,         N,    Y,      Y,     Y,        N,          Y],
            Self::DeleteNode            => [N,         N,    N,      Y,     N,        N,          Y],
            Self::PublishVersion        => [N,         N,    Y,      Y,     Y,        N,          Y],
            Self::ReviseVersion         => [N,         N,    Y,      Y,     Y,        N,          Y],
            Self::DeleteVersion         => [N,         N,    N,      Y,     N,        N,          Y],
            Self::UploadArchive         => [Y,         Y,    Y,      Y,     Y,        Y,          Y],
            Self::ReviewNode            => [N,         Y,    Y,      Y,     N,        N,          Y],
            Self::CreateFile            => [N,         Y,    Y,      Y,     N,        N,          Y],
            Self::UploadFile            => [Y,         Y,    Y,      Y,     Y,        Y,          Y],
            Self::SubmitImageTask       => [N,         Y,    Y,      Y,     N,        N,          Y],
            Self::ReadImageTask         => [N,         Y,    Y,      Y,     N,        N,          Y],
            Self::SubmitVideoTask       => [Y,         Y,    Y,      Y,     N,        N,          Y],
            Self::ReadVideoTask         => [Y,         Y,    Y,      Y,     N,        N,          Y],
            Self::CancelVideoTask       => [Y,         Y,    Y,      Y,     N,        N,          Y],
            Self::ReadCredits           => [N,         Y,    Y,      Y,     N,        N,          Y],
            Self::GenerateMusic         => [N,         Y,    Y,      Y,     N,        N,          Y],
            Self::ReadTask              => [N,         Y,    Y,      Y,     N,        N,          Y],
            Self::CancelTask            => [N,         Y,    Y,      Y,     N,        N,          Y],
            Self::RedeliverCallback     => [N,         Y,    Y,      Y,     N,        N,          Y],
            Self::ManageWebhookSecret   => [N,         Y,    Y,      Y,     N,        N,          Y],
            Self::ManageOwnTokens       => [N,         Y,    Y,      Y,     N,        N,          Y],
            Self::ReceiveVendorWebhook  => [Y,         Y,    Y,      Y,     Y,        Y,          Y],
            Self::Administer            => [N,         N,    N,      N,     N,        N,          Y],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_permissions_match_the_policy() {
        let page = include_str!("../../docs/rights.md");
        // A row has all actions with the same cells.
        let rows = page.lines().filter(|line| line.ends_with("| yes |"));
        let rows = rows.filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
        let mut documented: Vec<_> = rows
            .flat_map(|(actions, cells)| actions.split(", ").map(move |action| (action, cells.to_owned())))
            .collect();
        documented.sort_unstable();

        let row = |action: &Action| {
            let cells = CallerRole::ALL.map(|role| if action.allows(role) { "yes" } else { "no" });
            (action.as_str(), format!("{} |", cells.join(" | ")))
        };
        let mut expected: Vec<_> = Action::ALL.iter().map(row).collect();
        expected.sort_unstable();
        assert_eq!(documented, expected, "docs/rights.md");
    }

    #[test]
    fn a_read_only_token_may_change_nothing() {
        for action in Action::ALL {
            assert!(TokenScope::All.allows(*action), "{action:?}");
            assert_eq!(TokenScope::ReadOnly.allows(*action), !action.is_write(), "{action:?}");
        }
    }

    #[test]
    fn an_administrator_may_do_everything() {
        assert!(Action::ALL.iter().all(|action| action.allows(CallerRole::Admin)));
    }

    #[test]
    fn every_caller_has_the_anonymous_permissions_except_videos_for_publisher_tokens() {
        let video_actions = [Action::SubmitVideoTask, Action::ReadVideoTask, Action::CancelVideoTask];
        for action in Action::ALL.iter().filter(|action| action.allows(CallerRole::Anonymous)) {
            let is_allowed = |role: &CallerRole| action.allows(*role);
            let denied: Vec<_> = CallerRole::ALL.into_iter().filter(|role| !is_allowed(role)).collect();
            let tokens = [CallerRole::OwnToken, CallerRole::OtherToken];
            assert_eq!(denied, if video_actions.contains(action) { &tokens[..] } else { &[] }, "{action:?}");
        }
    }

    #[test]
    fn owners_have_all_permissions_of_members_and_members_those_of_users() {
        let implies =
            |weaker, stronger| Action::ALL.iter().all(|action| !action.allows(weaker) || action.allows(stronger));
        assert!(implies(CallerRole::User, CallerRole::Member));
        assert!(implies(CallerRole::Member, CallerRole::Owner));
        assert!(implies(CallerRole::OtherToken, CallerRole::OwnToken));
    }

    fn actions_allowed(role: CallerRole) -> Vec<Action> {
        Action::ALL.iter().copied().filter(|action| action.allows(role)).collect()
    }

    fn roles_allowed(action: Action) -> Vec<CallerRole> {
        CallerRole::ALL.into_iter().filter(|role| action.allows(*role)).collect()
    }

    #[test]
    fn a_personal_access_token_reads_the_registry_and_writes_nodes_and_nothing_else() {
        use Action::*;
        let expected = [
            ReadServiceState,
            ReadResult,
            ReadRegistry,
            ListPublisherNodes,
            CreateNode,
            ReviseNode,
            TranslateNode,
            PublishVersion,
            ReviseVersion,
            UploadArchive,
            UploadFile,
            ReceiveVendorWebhook,
        ];
        assert_eq!(actions_allowed(CallerRole::OwnToken), expected);

        let expected_other = [
            ReadServiceState,
            ReadResult,
            ReadRegistry,
            ListPublisherNodes,
            UploadArchive,
            UploadFile,
            ReceiveVendorWebhook,
        ];
        assert_eq!(actions_allowed(CallerRole::OtherToken), expected_other);
    }

    #[test]
    fn anonymous_callers_can_read_use_videos_and_use_secret_urls() {
        use Action::*;
        let video = [SubmitVideoTask, ReadVideoTask, CancelVideoTask];
        let expected = [
            &[ReadServiceState, ReadResult, ReadRegistry, UploadArchive, UploadFile][..],
            &video,
            &[ReceiveVendorWebhook],
        ]
        .concat();
        assert_eq!(actions_allowed(CallerRole::Anonymous), expected);
    }

    #[test]
    fn only_owners_and_administrators_change_a_publisher_and_delete() {
        use Action::*;
        let owners = [
            UpdatePublisher,
            DeletePublisher,
            ManageMembers,
            ManagePublisherTokens,
            ManagePublisherWebhooks,
            DeleteNode,
            DeleteVersion,
        ];
        for action in owners {
            assert_eq!(roles_allowed(action), [CallerRole::Owner, CallerRole::Admin], "{action:?}");
        }
    }

    #[test]
    fn members_of_the_publisher_can_leave_and_tokens_cannot() {
        assert_eq!(roles_allowed(Action::RemoveMember), [CallerRole::Member, CallerRole::Owner, CallerRole::Admin]);
    }

    #[test]
    fn members_and_tokens_of_the_publisher_work_on_its_nodes() {
        for action in [Action::CreateNode, Action::ReviseNode, Action::TranslateNode, Action::PublishVersion] {
            let expected = [CallerRole::Member, CallerRole::Owner, CallerRole::OwnToken, CallerRole::Admin];
            assert_eq!(roles_allowed(action), expected, "{action:?}");
        }
    }

    #[test]
    fn users_review_and_tokens_do_not() {
        let expected = [CallerRole::User, CallerRole::Member, CallerRole::Owner, CallerRole::Admin];
        assert_eq!(roles_allowed(Action::ReviewNode), expected);
    }

    #[test]
    fn exactly_the_actions_named_read_or_list_do_not_write() {
        for action in Action::ALL {
            let name = format!("{action:?}");
            let reads = name.starts_with("Read") || name.starts_with("List");
            assert_eq!(action.is_write(), !reads, "{name}");
        }
    }
}
