//! What was measured, and how it is shown. A figure is the middle of an odd number of runs, never of one.

use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// Seconds, as a figure.
pub(crate) fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// `berth up`.
    Berth,
    /// A Kubernetes of upstream.
    Upstream,
}

/// Whether a figure is in the table of docs/benchmarks.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// In the table of docs/benchmarks.md.
    Readme,
    /// Only in the table of all figures: what changes little with other load on the machine, for comparing two commits.
    Detail,
}

/// One figure of one scenario.
#[derive(Debug)]
pub(crate) struct Figure {
    name: String,
    unit: &'static str,
    table: Table,
    /// Sorted; an odd number, three at least.
    runs: Vec<f64>,
}

impl Figure {
    /// # Panics
    /// If `runs` have no middle, or if there are fewer than three, which show no spread.
    pub(crate) fn new(name: &str, unit: &'static str, table: Table, mut runs: Vec<f64>) -> Self {
        assert!(
            runs.len() >= 3 && runs.len() % 2 == 1,
            "{name}: {} runs; an odd number of three or more has a median and a spread",
            runs.len()
        );
        runs.sort_by(f64::total_cmp);
        Self { name: name.to_owned(), unit, table, runs }
    }

    /// Its run in the middle.
    pub(crate) fn median(&self) -> f64 {
        self.runs[self.runs.len() / 2]
    }

    fn min(&self) -> f64 {
        self.runs[0]
    }

    fn max(&self) -> f64 {
        self.runs[self.runs.len() - 1]
    }

    /// `28,000/s (25,200–28,000, n=5)`.
    fn cell(&self) -> String {
        let median = with_unit(&shown(self.median()), self.unit);
        format!("{median} ({}–{}, n={})", shown(self.min()), shown(self.max()), self.runs.len())
    }
}

/// Gathers the runs of a scenario, figure by figure, in the order in which they first come.
#[derive(Default)]
pub(crate) struct Runs {
    names: Vec<(String, &'static str, Table)>,
    values: BTreeMap<(String, &'static str), Vec<f64>>,
}

impl Runs {
    /// Adds one run of one figure.
    pub(crate) fn add(&mut self, name: &str, unit: &'static str, table: Table, value: f64) {
        let key = (name.to_owned(), unit);
        if !self.values.contains_key(&key) {
            self.names.push((name.to_owned(), unit, table));
        }
        self.values.entry(key).or_default().push(value);
    }

    /// The figures; those that were 0 in every run are left out.
    pub(crate) fn figures(mut self) -> Vec<Figure> {
        let names = std::mem::take(&mut self.names);
        let figure = |(name, unit, table): (String, &'static str, Table)| {
            let runs = self.values.remove(&(name.clone(), unit)).unwrap_or_default();
            runs.iter().any(|run| *run != 0.0).then(|| Figure::new(&name, unit, table, runs))
        };
        names.into_iter().filter_map(figure).collect()
    }
}

/// Every figure of both systems, for people.
pub(crate) fn table(figures: &[(System, Figure)]) -> String {
    let mut text = format!("\n{:62} {:>10} {:>10} {:>10} {:>4}\n", "", "median", "min", "max", "n");
    for (system, figure) in figures {
        let name = if *system == System::Upstream { format!("Kubernetes: {}", figure.name) } else { figure.name.clone() };
        let [median, min, max] = [figure.median(), figure.min(), figure.max()].map(shown);
        text.push_str(&format!("{name:62} {median:>10} {min:>10} {max:>10} {:>4}  {}\n", figure.runs.len(), figure.unit));
    }
    text
}

/// The table of docs/benchmarks.md. `upstream` adds the column of Kubernetes. A row without a figure there states that it needs nodes.
pub(crate) fn markdown(figures: &[(System, Figure)], upstream: bool) -> String {
    let head = if upstream { "| | Kubernetes | berth |\n|---|---|---|\n" } else { "| | berth |\n|---|---|\n" };
    let of = |wanted: System| figures.iter().filter(move |(system, figure)| *system == wanted && figure.table == Table::Readme);
    let mut text = head.to_owned();
    for (_, figure) in of(System::Berth) {
        let same = of(System::Upstream).find(|(_, other)| (&other.name, other.unit) == (&figure.name, figure.unit));
        let other = same.map_or_else(|| "not measured".to_owned(), |(_, other)| other.cell());
        let columns = if upstream { format!("{other} | {}", figure.cell()) } else { figure.cell() };
        text.push_str(&format!("| {} | {columns} |\n", figure.name));
    }
    text
}

/// The same for programs.
pub(crate) fn json(figures: &[(System, Figure)]) -> Value {
    let figures: Vec<Value> = figures
        .iter()
        .map(|(system, figure)| {
            json!({
                "of": if *system == System::Upstream { "kubernetes" } else { "berth" },
                "name": figure.name,
                "unit": figure.unit,
                "n": figure.runs.len(),
                "median": figure.median(),
                "min": figure.min(),
                "max": figure.max(),
            })
        })
        .collect();
    json!({"cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get), "figures": figures})
}

fn with_unit(value: &str, unit: &str) -> String {
    match unit {
        "" => value.to_owned(),
        "1/s" => format!("{value}/s"),
        _ => format!("{value} {unit}"),
    }
}

/// Three digits that count, thousands apart: `28,000`, `0.29`, `3.3`.
fn shown(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = value.abs().log10().floor() as i32;
    if digits < 2 {
        let decimals = usize::try_from((1 - digits).clamp(0, 3)).unwrap_or_default();
        return format!("{value:.decimals$}");
    }
    let step = 10_f64.powi(digits - 2);
    let whole = format!("{:.0}", (value / step).round() * step);
    let mut text = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(name: &str, runs: &[f64]) -> Figure {
        Figure::new(name, "ms", Table::Readme, runs.to_vec())
    }

    #[test]
    fn the_middle_of_the_runs_is_the_figure_and_all_of_them_its_spread() {
        let figure = figure("start", &[42.0, 31.0, 32.0]);
        assert_eq!((figure.median(), figure.min(), figure.max(), figure.runs.len()), (32.0, 31.0, 42.0, 3));
        assert_eq!(figure.cell(), "32 ms (31–42, n=3)");
    }

    #[test]
    #[should_panic(expected = "start: 1 runs")]
    fn a_single_run_is_no_figure() {
        figure("start", &[32.0]);
    }

    #[test]
    #[should_panic(expected = "start: 4 runs")]
    fn an_even_number_of_runs_has_no_middle() {
        figure("start", &[1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    #[should_panic(expected = "looks: 2 runs")]
    fn a_run_that_lacks_a_figure_is_noticed() {
        let mut runs = Runs::default();
        for _ in 0..2 {
            runs.add("looks", "", Table::Detail, 1.0);
        }
        runs.figures();
    }

    #[test]
    fn rows_of_the_readme_hold_what_both_were_asked() {
        let figures = [
            (System::Berth, figure("start", &[1.0, 2.0, 3.0])),
            (System::Berth, figure("rollout", &[0.285, 0.28, 0.29])),
            (System::Berth, Figure::new("writes", "", Table::Detail, vec![1.0; 3])),
            (System::Upstream, figure("start", &[2310.0, 2250.0, 2400.0])),
        ];
        let both = "| | Kubernetes | berth |\n|---|---|---|\n| start | 2,310 ms (2,250–2,400, n=3) | 2.0 ms (1.0–3.0, n=3) |\n| rollout | \
                    not measured | 0.28 ms (0.28–0.29, n=3) |\n";
        assert_eq!(markdown(&figures, true), both);
        assert!(markdown(&figures, false).starts_with("| | berth |\n|---|---|\n| start | 2.0 ms (1.0–3.0, n=3) |\n"));
        assert_eq!(
            json(&figures)["figures"][3],
            json!({"of": "kubernetes", "name": "start", "unit": "ms", "n": 3, "median": 2310.0, "min": 2250.0, "max": 2400.0})
        );
    }

    #[test]
    fn numbers_show_the_digits_that_count() {
        let cases = [
            (28_043.0, "28,000"),
            (0.2853, "0.29"),
            (3.31, "3.3"),
            (281.4, "281"),
            (74_800.0, "74,800"),
            (1_234_567.0, "1,230,000"),
            (0.0, "0"),
            (0.041, "0.041"),
        ];
        for (value, text) in cases {
            assert_eq!(shown(value), text);
        }
    }
}
