//! The options in a URL's query.

use berth_registry::{ApiError, DeleteOptions, GetOptions, ListOptions, WatchOptions, WriteOptions, log::LogOptions};
use std::{borrow::Cow, time::Duration};

/// A parsed query. Unknown parameters are ignored, as upstream.
#[derive(Clone, Debug, Default)]
pub struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

/// Go's layout of times in upstream's error messages.
const RFC3339_LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
/// The maximum timeout of a watch. Larger values are equivalent.
const WATCH_SECONDS_MAX: i64 = 366 * 24 * 3600;

impl<'a> Query<'a> {
    /// Parses the text after the `?`.
    #[must_use]
    pub fn parse(text: Option<&'a str>) -> Self {
        Self(text.map(|text| form_urlencoded::parse(text.as_bytes()).collect()).unwrap_or_default())
    }

    /// Returns the first value of a parameter.
    #[must_use]
    pub fn first(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Whether the parameter is present, with or without a value.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.first(name).is_some()
    }

    /// Returns every value of a parameter.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_ref())
    }

    fn text(&self, name: &str) -> String {
        self.first(name).unwrap_or_default().to_owned()
    }

    /// Returns a boolean: every value except `false` and `0` is true, in any case, even an invalid one.
    #[must_use]
    pub fn truth(&self, name: &str) -> Option<bool> {
        self.first(name).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    fn integer(&self, name: &str) -> Result<Option<i64>, ApiError> {
        self.first(name).filter(|value| !value.is_empty()).map(parse_integer).transpose()
    }

    /// Whether a GET of a collection is a watch.
    #[must_use]
    pub fn watch(&self) -> bool {
        self.truth("watch").unwrap_or(false)
    }

    /// Returns `timeoutSeconds` of a watch, or `None` if it is missing or 0.
    ///
    /// # Errors
    /// The value is not an integer.
    pub fn watch_timeout(&self) -> Result<Option<Duration>, ApiError> {
        let seconds = self.integer("timeoutSeconds")?.filter(|seconds| *seconds != 0);
        Ok(seconds.map(|seconds| Duration::from_secs(u64::try_from(seconds.min(WATCH_SECONDS_MAX)).unwrap_or(0))))
    }

    /// Returns the options of get.
    #[must_use]
    pub fn get_options(&self) -> GetOptions {
        GetOptions { resource_version: self.text("resourceVersion") }
    }

    /// Returns the options of list and deletecollection.
    ///
    /// # Errors
    /// `limit` or `timeoutSeconds` is not an integer.
    pub fn list_options(&self) -> Result<ListOptions, ApiError> {
        self.integer("timeoutSeconds")?;
        Ok(ListOptions {
            label_selector: self.text("labelSelector"),
            field_selector: self.text("fieldSelector"),
            limit: self.integer("limit")?.unwrap_or(0),
            continue_token: self.text("continue"),
            resource_version: self.text("resourceVersion"),
            resource_version_match: self.text("resourceVersionMatch"),
            send_initial_events: self.truth("sendInitialEvents"),
        })
    }

    /// Returns the options of watch, without the timeout.
    ///
    /// # Errors
    /// `limit` is not an integer.
    pub fn watch_options(&self) -> Result<WatchOptions, ApiError> {
        self.integer("limit")?;
        Ok(WatchOptions {
            progress: false,
            label_selector: self.text("labelSelector"),
            field_selector: self.text("fieldSelector"),
            resource_version: self.text("resourceVersion"),
            resource_version_match: self.text("resourceVersionMatch"),
            allow_bookmarks: self.truth("allowWatchBookmarks").unwrap_or(false),
            continue_token: self.text("continue"),
            send_initial_events: self.truth("sendInitialEvents"),
        })
    }

    /// Returns the options of create, update and patch.
    #[must_use]
    pub fn write_options(&self) -> WriteOptions {
        WriteOptions {
            dry_run: self.dry_run(),
            field_manager: self.text("fieldManager"),
            field_validation: self.text("fieldValidation"),
            force: self.truth("force"),
            ..WriteOptions::default()
        }
    }

    /// Returns the options of a delete without a body.
    ///
    /// # Errors
    /// `gracePeriodSeconds` is not an integer.
    pub fn delete_options(&self) -> Result<DeleteOptions, ApiError> {
        Ok(DeleteOptions {
            dry_run: self.dry_run(),
            grace_period_seconds: self.integer("gracePeriodSeconds")?,
            propagation_policy: self.first("propagationPolicy").map(ToOwned::to_owned),
            orphan_dependents: self.truth("orphanDependents"),
            ..DeleteOptions::default()
        })
    }

    /// Returns the options of a pod's log.
    ///
    /// # Errors
    /// A number or `sinceTime` is invalid.
    pub fn log_options(&self) -> Result<LogOptions, ApiError> {
        let truth = |name| self.truth(name).unwrap_or(false);
        let since_time = self.first("sinceTime").filter(|text| !text.is_empty());
        let since_time = since_time.map(|text| {
            text.parse().map_err(|_| ApiError::BadRequest {
                message: format!("parsing time {text:?} as {RFC3339_LAYOUT:?}: cannot parse {text:?}"),
            })
        });
        Ok(LogOptions {
            container: self.text("container"),
            follow: truth("follow"),
            previous: truth("previous"),
            timestamps: truth("timestamps"),
            since_seconds: self.integer("sinceSeconds")?,
            since_time: since_time.transpose()?,
            tail_lines: self.integer("tailLines")?,
            limit_bytes: self.integer("limitBytes")?,
            has_stream: self.has("stream"),
        })
    }

    fn dry_run(&self) -> Vec<String> {
        self.all("dryRun").filter(|value| !value.is_empty()).map(ToOwned::to_owned).collect()
    }
}

fn parse_integer(text: &str) -> Result<i64, ApiError> {
    text.parse().map_err(|error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let cause = if matches!(error.kind(), PosOverflow | NegOverflow) { "value out of range" } else { "invalid syntax" };
        ApiError::BadRequest { message: format!("strconv.ParseInt: parsing {text:?}: {cause}") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_unescaped() {
        let options = Query::parse(Some("labelSelector=app%3Dd%2Ctier+in+(a,b)&limit=5")).list_options().expect("valid");
        assert_eq!(options.label_selector, "app=d,tier in (a,b)");
        assert_eq!(options.limit, 5);
    }

    #[test]
    fn a_number_that_is_none_is_refused_in_upstreams_words() {
        for (query, message) in [
            ("limit=x", "strconv.ParseInt: parsing \"x\": invalid syntax"),
            ("limit=1.5", "strconv.ParseInt: parsing \"1.5\": invalid syntax"),
            ("timeoutSeconds=99999999999999999999", "strconv.ParseInt: parsing \"99999999999999999999\": value out of range"),
        ] {
            let error = Query::parse(Some(query)).list_options().expect_err(query);
            assert_eq!(error.to_string(), message);
        }
        assert!(Query::parse(Some("timeoutSeconds=x")).watch_timeout().is_err());
        assert!(Query::parse(Some("gracePeriodSeconds=x")).delete_options().is_err());
    }

    #[test]
    fn watch_is_true_for_everything_but_false_and_0() {
        for (query, expected) in [
            ("watch=true", true),
            ("watch=1", true),
            ("watch", true),
            ("watch=rubbish", true),
            ("watch=False", false),
            ("watch=0", false),
            ("", false),
        ] {
            assert_eq!(Query::parse(Some(query)).watch(), expected, "{query}");
        }
    }

    #[test]
    fn watch_timeouts_are_bounded_and_zero_means_unsaid() {
        let timeout = |query| Query::parse(Some(query)).watch_timeout().expect("an integer");
        assert_eq!(timeout("timeoutSeconds=2"), Some(Duration::from_secs(2)));
        assert_eq!(timeout("timeoutSeconds=0"), None);
        assert_eq!(timeout("timeoutSeconds=-3"), Some(Duration::ZERO));
        assert_eq!(timeout("timeoutSeconds=9223372036854775807"), Some(Duration::from_secs(366 * 24 * 3600)));
    }

    #[test]
    fn repeated_dry_run_values_are_all_handed_on() {
        assert_eq!(Query::parse(Some("dryRun=All&dryRun=foo")).write_options().dry_run, ["All", "foo"]);
    }
}
