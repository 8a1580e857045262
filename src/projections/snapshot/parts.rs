//! The kinds of values in a snapshot, in the order in which they are written.

use crate::domain::budget::BudgetSubject;
use crate::domain::ids::{PublisherId, TaskId, TokenId, UserId};
use crate::domain::publisher::Publisher;
use crate::domain::task::Payers;
use crate::domain::token::Token;
use crate::domain::user::User;
use crate::domain::value::{Digest, Timestamp};
use crate::events::codec::unpack;
use crate::events::schema::CommitDecodeError;
use crate::projections::budget::BudgetAccount;
use crate::projections::claim::KeyClaims;
use crate::projections::delivery::Deliveries;
use crate::projections::node::{NodeSnapshotRow, OwnerSnapshotRow};
use crate::projections::read_models::Models;
use crate::projections::task::Tasks;
use crate::projections::task::index::{FileMark, TaskIndexEntry, VendorTerms};

/// Kind of a chunk's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SnapshotPartKind {
    Owners = 1,
    Nodes,
    Generation,
    Users,
    Publishers,
    Tokens,
    TokensOfPublishers,
    TokensOfUsers,
    Tasks,
    TaskOwners,
    TaskBlocks,
    TaskMarks,
    TaskPayers,
    TaskVendors,
    Deliveries,
    Claims,
    ClaimOrder,
    Budgets,
    Streams,
}

/// A decoded chunk.
pub enum SnapshotPart {
    Owners(Vec<OwnerSnapshotRow>),
    Nodes(Vec<NodeSnapshotRow>),
    Generation(Vec<u64>),
    Users(Vec<(UserId, User)>),
    Publishers(Vec<(String, Publisher)>),
    Tokens(Vec<(TokenId, Token)>),
    TokensOfPublishers(Vec<(PublisherId, Vec<TokenId>)>),
    TokensOfUsers(Vec<(UserId, Vec<TokenId>)>),
    Tasks(Vec<Tasks>),
    TaskOwners(Vec<Option<UserId>>),
    TaskBlocks(Vec<Vec<TaskIndexEntry>>),
    TaskMarks(Vec<(TaskId, Vec<FileMark>)>),
    TaskPayers(Vec<Payers>),
    TaskVendors(Vec<VendorTerms>),
    Deliveries(Vec<Deliveries>),
    Claims(Vec<(Digest, KeyClaims)>),
    ClaimOrder(Vec<(Timestamp, Digest)>),
    Budgets(Vec<(BudgetSubject, BudgetAccount)>),
    Streams(Vec<(u64, u32)>),
}

impl SnapshotPart {
    /// Decodes the values of a chunk.
    ///
    /// # Errors
    /// If the kind is unknown or the values have another type.
    pub fn decode(kind: u8, bytes: &[u8]) -> Result<Self, CommitDecodeError> {
        Ok(match kind {
            k if k == SnapshotPartKind::Owners as u8 => Self::Owners(decode_values(bytes)?),
            k if k == SnapshotPartKind::Nodes as u8 => Self::Nodes(decode_values(bytes)?),
            k if k == SnapshotPartKind::Generation as u8 => Self::Generation(decode_values(bytes)?),
            k if k == SnapshotPartKind::Users as u8 => Self::Users(decode_values(bytes)?),
            k if k == SnapshotPartKind::Publishers as u8 => Self::Publishers(decode_values(bytes)?),
            k if k == SnapshotPartKind::Tokens as u8 => Self::Tokens(decode_values(bytes)?),
            k if k == SnapshotPartKind::TokensOfPublishers as u8 => Self::TokensOfPublishers(decode_values(bytes)?),
            k if k == SnapshotPartKind::TokensOfUsers as u8 => Self::TokensOfUsers(decode_values(bytes)?),
            k if k == SnapshotPartKind::Tasks as u8 => Self::Tasks(decode_values(bytes)?),
            k if k == SnapshotPartKind::TaskOwners as u8 => Self::TaskOwners(decode_values(bytes)?),
            k if k == SnapshotPartKind::TaskBlocks as u8 => Self::TaskBlocks(decode_values(bytes)?),
            k if k == SnapshotPartKind::TaskMarks as u8 => Self::TaskMarks(decode_values(bytes)?),
            k if k == SnapshotPartKind::TaskPayers as u8 => Self::TaskPayers(decode_values(bytes)?),
            k if k == SnapshotPartKind::TaskVendors as u8 => Self::TaskVendors(decode_values(bytes)?),
            k if k == SnapshotPartKind::Deliveries as u8 => Self::Deliveries(decode_values(bytes)?),
            k if k == SnapshotPartKind::Claims as u8 => Self::Claims(decode_values(bytes)?),
            k if k == SnapshotPartKind::ClaimOrder as u8 => Self::ClaimOrder(decode_values(bytes)?),
            k if k == SnapshotPartKind::Budgets as u8 => Self::Budgets(decode_values(bytes)?),
            k if k == SnapshotPartKind::Streams as u8 => Self::Streams(decode_values(bytes)?),
            kind => return Err(CommitDecodeError::Malformed(format!("chunks of kind {kind} are unknown"))),
        })
    }

    /// Restores the values; chunks must be restored in the order of writing.
    pub fn restore(self, models: &mut Models) {
        match self {
            Self::Owners(owners) => models.nodes.restore_owners(owners),
            Self::Nodes(nodes) => models.nodes.restore(nodes),
            Self::Generation(generations) => {
                for generation in generations {
                    models.nodes.restore_generation(generation);
                }
            }
            Self::Users(users) => models.users.restore(users),
            Self::Publishers(publishers) => models.publishers.restore(publishers),
            Self::Tokens(tokens) => models.tokens.restore(tokens),
            Self::TokensOfPublishers(lists) => models.tokens.restore_lists(lists, Vec::new()),
            Self::TokensOfUsers(lists) => models.tokens.restore_lists(Vec::new(), lists),
            Self::Tasks(tasks) => tasks.into_iter().for_each(|tasks| models.tasks = tasks),
            Self::TaskOwners(owners) => models.tasks.index.restore_owners(owners),
            Self::TaskBlocks(blocks) => models.tasks.index.restore_blocks(blocks),
            Self::TaskMarks(marks) => models.tasks.index.restore_extra_marks(marks),
            Self::TaskPayers(payers) => models.tasks.index.restore_payers(payers),
            Self::TaskVendors(vendors) => models.tasks.index.restore_vendors(vendors),
            Self::Deliveries(values) => values.into_iter().for_each(|deliveries| models.deliveries = deliveries),
            Self::Claims(claims) => models.claims.restore(claims, Vec::new()),
            Self::ClaimOrder(order) => models.claims.restore(Vec::new(), order),
            Self::Budgets(budgets) => models.budgets.restore(budgets),
            Self::Streams(versions) => models.streams.restore(versions),
        }
    }
}

fn decode_values<T: serde::de::DeserializeOwned>(mut bytes: &[u8]) -> Result<Vec<T>, CommitDecodeError> {
    let mut values = Vec::new();
    while !bytes.is_empty() {
        values.push(unpack(&mut bytes)?);
    }
    Ok(values)
}
