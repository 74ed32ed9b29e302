// SPDX-License-Identifier: MIT
//! Ratios, shares and lists as a reader has them.

/// `a`, `a and b`, `a, b and c`
pub fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// A ratio: `1.25×`; `∞×` where the other did nothing.
pub fn times(ratio: f64) -> String {
    match ratio {
        r if r >= 1e12 => "∞×".into(),
        r if r >= 100.0 => format!("{r:.0}×"),
        r if r >= 10.0 => format!("{r:.1}×"),
        r => format!("{r:.2}×"),
    }
}

pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p < 0.1 => format!("{p:.2} %"),
        p if p < 10.0 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_ratios_are_short() {
        assert_eq!(
            [0.0004, 0.0123, 0.25].map(percent),
            ["0.04 %", "1.2 %", "25 %"]
        );
        assert_eq!([1.234, 12.34, 123.4].map(times), ["1.23×", "12.3×", "123×"]);
        assert_eq!(times(50.0f64.exp()), "∞×");
    }
}
