//! Budgets and usage.

use serde_json::{Value, json};

use super::OperationGroup;
use super::operation::{Operation, operation};
use super::parameter::{allow_empty, paging_parameters, query_parameter};
use super::schema::{HasSchema, array, field, field_with_schema, nullable, one_of, page_of, response_object};
use crate::domain::budget::BudgetPeriod;
use crate::domain::ids::UserId;
use crate::domain::value::Timestamp;
use crate::http::api::budget::{BudgetBody, LIMIT_DEFAULT};
use crate::http::api::usage::{CSV, UsageGrouping};
use crate::http::request::query::LIMIT_MAX;
use crate::http::response::error::Code;

pub fn group() -> OperationGroup {
    OperationGroup {
        tag: "Budgets and usage",
        description: "Limits of the cost of submissions, and their cost so far. A task's credits are held at \
                      submission, charged when it is completed, and refunded when it fails or is cancelled.",
        operations: budget_operations().into_iter().chain([usage()]).collect(),
        components: vec![
            ("Budget", response_object(budget_fields())),
            ("BudgetList", page_of("budgets", "Budget")),
            ("Usage", usage_schema()),
        ],
    }
}

fn budget_example() -> Value {
    json!({"subject": {"kind": "publisher", "id": "acme"}, "limit": 5000, "period": "month", "spent": 1200, "held": 150,
        "resets_at": "2026-04-01T00:00:00.000000Z"})
}

fn budget_operations() -> Vec<Operation> {
    vec![
        operation("listBudgets", "List the budgets")
            .description("Returns a page of all budgets, ordered by subject.")
            .query(paging_parameters(LIMIT_DEFAULT, LIMIT_MAX))
            .ok_response(
                "A page of budgets.",
                "BudgetList",
                &json!({"budgets": [budget_example()], "limit": 100, "page": 1, "total": 1, "totalPages": 1}),
            ),
        operation("getBudget", "Get a budget")
            .description("Returns the budget of a user, a token or a publisher.")
            .ok_response("The budget.", "Budget", &budget_example()),
        operation("setBudget", "Set a budget")
            .description(
                "Sets or replaces the budget. It counts the tasks that were submitted in the current period, including those \
                 submitted before the request: for a user, all tasks of the user; for a token, those submitted with it; for a \
                 publisher, those that its members submitted while it had a budget. Tasks of earlier periods do not \
                 count. A submission that would exceed any budget is rejected with 402, and concurrent submissions never \
                 exceed one together. A budget below what is used rejects further submissions and cancels nothing.",
            )
            .json_object::<BudgetBody>(&json!({"credits": 5000, "period": "month"}))
            .ok_response("The budget.", "Budget", &budget_example()),
        operation("removeBudget", "Remove a budget")
            .description("Removes the budget; submissions are then limited by the other budgets only.")
            .empty_response(204, "The budget was removed."),
    ]
}

/// Returns the fields of a budget. The error `budget_exceeded` has the same fields.
pub(super) fn budget_fields() -> Vec<super::schema::SchemaField> {
    let subject = response_object([
        field_with_schema("kind", "Kind of the subject.", one_of(["user", "token", "publisher"])).required(),
        field::<String>("id", "Id of the subject.").required(),
    ]);
    vec![
        field_with_schema("subject", "User, token or publisher whose tasks the budget counts.", subject).required(),
        field::<u64>("limit", "Credits of each period.").required(),
        field::<BudgetPeriod>("period", "Period; days and months are those of UTC.").required(),
        field::<u64>("spent", "Credits of completed tasks that were submitted in this period.").required(),
        field::<u64>("held", "Credits of unfinished tasks that were submitted in this period.").required(),
        field::<Timestamp>("resets_at", "Start of the next period; absent if there is none."),
    ]
}

fn usage() -> Operation {
    let row = json!({"group": "2026-03-01", "submissions": 3, "unfinished": 1, "completed": 1, "failed": 0, "cancelled": 1,
        "held": 150, "charged": 150, "refunded": 150, "cost": 0.07});
    let mut total = row.clone();
    total.as_object_mut().map(|total| total.remove("group"));
    let example = json!({"from": "2026-03-01", "to": "2026-03-31", "group_by": "day", "rows": [row], "total": total});
    let csv = json!({"schema": {"type": "string"}, "example":
        "day,submissions,unfinished,completed,failed,cancelled,held,charged,refunded,cost\n2026-03-01,3,1,1,0,1,150,150,150,0.07\n"});
    let date = json!({"type": "string", "format": "date"});
    operation("getUsage", "Get the usage")
        .description(
            "Returns sums over the tasks that were submitted in a period: of the caller or, for administrators, of \
             everyone. A task counts on the day of its submission, also when it ends later. `Accept: text/csv` returns \
             a table with one line for each row.",
        )
        .query([
            query_parameter("from", "First day, in UTC; by default the first of this month.", &allow_empty(&date)),
            query_parameter("to", "Last day, in UTC, not before `from`; by default today.", &allow_empty(&date)),
            query_parameter(
                "group_by",
                "Property that the tasks of a row share; by default `day`.",
                &allow_empty(&one_of(UsageGrouping::ALL.iter().map(|grouping| grouping.as_str()))),
            ),
            query_parameter(
                "user",
                "Only tasks of this user; other users only for administrators.",
                &allow_empty(&UserId::schema()),
            ),
        ])
        .ok_response("The sums.", "Usage", &example)
        .or_content(200, CSV, &csv)
        .error(Code::Forbidden, "only administrators can read the usage of other users")
}

fn sum_fields() -> Vec<super::schema::SchemaField> {
    vec![
        field::<u64>("submissions", "Submitted tasks: the sum of the four numbers that follow.").required(),
        field::<u64>("unfinished", "Unfinished tasks.").required(),
        field::<u64>("completed", "Completed tasks.").required(),
        field::<u64>("failed", "Failed tasks.").required(),
        field::<u64>("cancelled", "Cancelled tasks.").required(),
        field::<u64>("held", "Credits of unfinished tasks.").required(),
        field::<u64>("charged", "Credits of completed tasks.").required(),
        field::<u64>("refunded", "Credits of failed and cancelled tasks.").required(),
        field_with_schema(
            "cost",
            "Cost at the vendors that have, may have or had the tasks, without jobs that they refused; in the unit of the \
             operator's settings.",
            json!({"type": "number", "minimum": 0}),
        )
        .required(),
    ]
}

fn usage_schema() -> Value {
    let group = field_with_schema(
        "group",
        "Day, job, id of the user or the token, or name of the vendor; `null` for tasks without one.",
        nullable(json!({"type": "string"})),
    )
    .required();
    let row = response_object([group].into_iter().chain(sum_fields()));
    let date = json!({"type": "string", "format": "date"});
    response_object([
        field_with_schema("from", "First day.", date.clone()).required(),
        field_with_schema("to", "Last day.", date).required(),
        field_with_schema(
            "group_by",
            "Property that the tasks of a row share.",
            one_of(UsageGrouping::ALL.iter().map(|grouping| grouping.as_str())),
        )
        .required(),
        field_with_schema("rows", "One row for each group that has tasks, in the order of the groups.", array(&row))
            .required(),
        field_with_schema("total", "Sums over all rows.", response_object(sum_fields())).required(),
    ])
}
