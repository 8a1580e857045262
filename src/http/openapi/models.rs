//! Jobs with their prices.

use serde_json::{Map, Value, json};

use super::OperationGroup;
use super::operation::{Operation, operation};
use super::parameter::{ParameterObject, query_parameter};
use super::schema::{array, component_ref, field, field_with_schema, one_of, response_object};
use crate::http::api::estimate::ESTIMATE;
use crate::http::api::models::JOBS;

pub fn group() -> OperationGroup {
    OperationGroup {
        tag: "Models",
        description: "The jobs that can be submitted: parameters, prices and availability.",
        operations: vec![list()],
        components: vec![
            (
                "ModelList",
                response_object([
                    field_with_schema("models", "All jobs, by medium.", array(&component_ref("Model"))).required()
                ]),
            ),
            ("Model", model_schema()),
            ("ModelPrice", price_schema()),
            ("Estimate", estimate_schema()),
        ],
    }
}

fn list() -> Operation {
    let hdr = json!({"name": "hdr", "required": false, "type": "integer", "minimum": -10, "maximum": 10, "default": 0});
    let example = json!({"medium": "image", "job": JOBS[0].job, "path": JOBS[0].path, "parameters": [hdr],
        "price": {"credits": 0, "rule": "A fixed price for each task."}, "available": true});
    operation("listModels", "List the jobs that can be submitted")
        .description(
            "Returns every job with its parameters as JSON schemas, its price, and whether a vendor serves it now. \
             `?estimate=true` on a submission returns the price of that submission.",
        )
        .ok_response("All jobs.", "ModelList", &json!({"models": [example]}))
}

fn model_schema() -> Value {
    let parameter = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Name of the field."},
            "required": {"type": "boolean", "description": "`true` if the field is required."},
        },
        "required": ["name", "required"],
        "additionalProperties": true,
    });
    response_object([
        field_with_schema("medium", "Medium.", one_of(["image", "video", "music"])).required(),
        field_with_schema("job", "Name of the job.", one_of(JOBS.iter().map(|endpoint| endpoint.job))).required(),
        field::<String>("path", "Path of the submission.").required(),
        field_with_schema(
            "parameters",
            "Fields of the body: name, whether the field is required, and the keywords of its JSON schema, with ranges and default.",
            array(&parameter),
        )
        .required(),
        field_with_schema("price", "Price of the job.", component_ref("ModelPrice")).required(),
        field::<bool>("available", "`true` if a vendor takes the job and can be called now.").required(),
    ])
}

fn price_schema() -> Value {
    let price = json!({
        "type": "object",
        "properties": {
            "seconds": {
                "type": "array",
                "items": {"type": "integer", "minimum": 0},
                "description": "Prices of one second, two seconds and so on.",
            },
            "more": {"type": "integer", "minimum": 0, "description": "Price of each further second."},
        },
        "required": ["seconds", "more"],
    });
    let by_resolution = json!({"type": "object", "additionalProperties": price});
    response_object([
        field::<u32>("credits", "Price of each task. Absent for videos, whose price depends on the parameters."),
        field::<u32>("credits_per_second", "Price of each requested second, in addition."),
        field_with_schema(
            "by_model",
            "Prices by model and resolution: of the first seconds, and of each further one.",
            json!({"type": "object", "additionalProperties": by_resolution}),
        ),
        field::<u32>("is_rec", "Surcharge for the recommended prompt."),
        field::<u32>("off_peak_percent", "Off-peak price in percent of the regular price."),
        field::<String>("rule", "Calculation of the price, in words.").required(),
    ])
}

/// Returns the schema of the response to a submission with `?estimate=true`.
fn estimate_schema() -> Value {
    let item = response_object([
        field::<String>("item", "Priced item: a job, a length, a surcharge or a discount.").required(),
        field_with_schema("credits", "Credits; negative for a reduction.", json!({"type": "integer"})).required(),
    ]);
    response_object([
        field::<u32>("credits", "Price of the submission.").required(),
        field_with_schema("breakdown", "Parts of the price.", array(&item)).required(),
    ])
}

/// Returns the query parameter that turns a submission into a request for its price.
pub fn estimate_parameter() -> ParameterObject {
    let about = "`true` to get only the price: `{credits, breakdown}`. The submission is checked like any other, and \
                 changes nothing: no task, no idempotency key, and of the daily quotas only the bytes of the body.";
    let schema = Map::from_iter([("type".to_owned(), json!("boolean")), ("default".to_owned(), json!(false))]);
    query_parameter(ESTIMATE, about, &Value::Object(schema))
}
