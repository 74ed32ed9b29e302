// SPDX-License-Identifier: MIT
//! What a paper says of all locks has a claim against each lock that is measured with it.

use std::collections::BTreeSet;

use super::records::{SCENES, installed, statements};
use super::*;

/// What is said of all locks is judged against each that the scene has. The paper's u-SCL crashes in the index.
#[test]
fn what_is_said_of_all_locks_is_judged_against_each() {
    let of_all = |c: &&Claim| {
        statements()
            .iter()
            .any(|t| t.contains_key("of_all") && t["name"].as_str() == Some(&c.statement))
    };
    let file = installed(SCENES[0]);
    let claims: Vec<&Claim> = file.claims.iter().filter(of_all).collect();
    assert!(claims.len() > 4);
    for claim in &claims {
        let same = claims
            .iter()
            .filter(|c| (&c.statement, &c.scene) == (&claim.statement, &claim.scene));
        let against: BTreeSet<&str> = same
            .filter_map(|c| c.of.as_ref()?.lock.as_deref())
            .collect();
        let scene = file
            .scenes
            .iter()
            .find(|s| s["name"].as_str() == Some(&claim.scene))
            .unwrap();
        for lock in scene["locks"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
        {
            let own = claim.locks.iter().any(|l| l == lock) || lock.starts_with("flexguard");
            let crashes = claim.statement == "index-all" && lock == "u-scl";
            assert!(
                own || crashes || against.contains(lock),
                "{}, {}: {lock}",
                claim.statement,
                claim.scene
            );
        }
    }
}
