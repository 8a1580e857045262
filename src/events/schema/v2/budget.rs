//! Budgets in schema version 2.

use serde::{Deserialize, Serialize};

use super::super::v1::Str;

#[derive(Debug, Serialize, Deserialize)]
pub enum BudgetEventV2<'a> {
    BudgetSet { credits: u64, period: Str<'a> },
    BudgetRemoved,
}
