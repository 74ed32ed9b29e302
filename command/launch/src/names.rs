// SPDX-License-Identifier: MIT
//! What to say of a name that nothing has.

/// The nearest of the names, if one is near, and all of them.
pub fn advice<S: AsRef<str>>(unknown: &str, names: &[S]) -> String {
    let names: Vec<&str> = names.iter().map(S::as_ref).collect();
    let all = names.join(", ");
    format!("{}there are: {all}", guess(unknown, names))
}

/// The nearest of the names as a question, with a space behind it; empty if none is near.
pub fn guess<'a>(unknown: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let wrong = |name: &str| strsim::damerau_levenshtein(name, unknown);
    let nearest = names
        .into_iter()
        .map(|name| (wrong(name), name))
        .min_by_key(|(wrong, _)| *wrong);
    // A third of the letters may be wrong.
    match nearest {
        Some((wrong, name)) if 3 * wrong <= unknown.chars().count() => {
            format!("did you mean '{name}'? ")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_suggested_and_none_that_is_far() {
        let names = ["informed", "mcs", "memcached", "server"];
        for (unknown, near) in [
            ("memcahed", "memcached"),
            ("memcahced", "memcached"),
            ("sever", "server"),
            ("MCS", ""),
            ("mcss", "mcs"),
        ] {
            let expected = match near {
                "" => String::new(),
                near => format!("did you mean '{near}'? "),
            };
            assert_eq!(guess(unknown, names), expected);
        }
        for far in ["nope", "zzzzzz", "x", ""] {
            assert_eq!(guess(far, names), "");
        }
        assert_eq!(guess("mcs", []), "");
    }

    #[test]
    fn all_names_are_listed() {
        assert_eq!(
            advice("shn", &["shm", "pool"]),
            "did you mean 'shm'? there are: shm, pool"
        );
        assert_eq!(advice("x", &["shm".to_owned()]), "there are: shm");
    }
}
