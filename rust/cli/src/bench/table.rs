// SPDX-License-Identifier: MIT
//! Columns for people. The first columns (names) are aligned left, the rest (numbers) right.

/// A row a line, below the titles.
pub struct Table {
    names: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// `names`: how many of the columns are names.
    pub fn new(titles: &[&str], names: usize) -> Self {
        Self {
            names,
            rows: vec![titles.iter().map(ToString::to_string).collect()],
        }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|r| r.get(column))
                .map(|c| c.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, &width))| {
                    if column < self.names {
                        format!("{cell:width$}")
                    } else {
                        format!("{cell:>width$}")
                    }
                });
            text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_left_numbers_right() {
        let mut table = Table::new(&["lock", "ops"], 1);
        table.row(vec!["posix".into(), "1".into()]);
        table.row(vec!["mcs".into(), "1000".into()]);
        assert_eq!(table.render(), "lock    ops\nposix     1\nmcs    1000\n");
    }
}
