// SPDX-License-Identifier: MIT
//! The published JSON schemas, docs/design/*.schema.json: generated from the types, and kept to by what is written.
//! FLEXGUARD_WRITE_SCHEMAS=1 writes them anew.

use std::fs;
use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};

use super::*;

/// The schema in the file called `name`, which must be that of `T`.
pub fn published<T: JsonSchema>(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/design")
        .join(name);
    // docs/guide/benchmarks.md says what the fields are for; here only their names and types count.
    let bare = RecursiveTransform(|schema: &mut Schema| {
        schema.remove("description");
    });
    let settings = SchemaSettings::draft2020_12().with_transform(bare);
    let generated = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    if std::env::var_os("FLEXGUARD_WRITE_SCHEMAS").is_some() {
        let text = serde_json::to_string_pretty(&generated).unwrap();
        fs::write(&path, text + "\n").unwrap();
    }
    let text = fs::read_to_string(&path).unwrap();
    let published: Value = serde_json::from_str(&text).unwrap();
    assert!(
        published == generated,
        "{name} is not the schema of what is written; if the change is meant, raise the format's version where a field \
         changes its meaning or goes, and run this test with FLEXGUARD_WRITE_SCHEMAS=1"
    );
    published
}

/// What is wrong with `value` by `schema`.
pub fn check(schema: &Value, value: &Value) -> Result<(), String> {
    let validator = jsonschema::validator_for(schema).unwrap();
    validator
        .validate(value)
        .map_err(|e| format!("{}: {e}", e.instance_path()))
}

#[test]
fn a_result_keeps_to_its_published_schema() {
    let schema = published::<Document>("bench-result.schema.json");
    let good = serde_json::to_value(testing::document()).unwrap();
    check(&schema, &good).unwrap();
    for (pointer, bad) in [
        ("/schema", Value::from("flexguard-bench/0")),
        ("/rounds", Value::from("seven")),
        ("/results/0/point/threads", Value::from("8")),
        ("/results/0/measures/cs_mean_ns/median", Value::Null),
        ("/measures/0/unit", Value::from("parsec")),
    ] {
        let mut document = good.clone();
        *document.pointer_mut(pointer).unwrap() = bad;
        check(&schema, &document).expect_err(pointer);
    }
}
