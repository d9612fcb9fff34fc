//! Reads the number in an answer.

use crate::config::Kind;
use berth_workloads::analysis::{Answer, NoAnswer};
use serde::{Deserialize, de::IgnoredAny};

/// Reads the body of an answer.
pub(crate) fn read(kind: Kind, body: &[u8]) -> Result<Answer, NoAnswer> {
    // A struct can also be decoded from a list.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(NoAnswer::NotANumber);
    }
    let number = match kind {
        Kind::Prometheus => prometheus(body)?,
        Kind::Webhook => serde_json::from_slice::<ErrorBody>(body).map_err(|_| NoAnswer::NotANumber)?.value,
    };
    Answer::try_from(number)
}

/// The answer of a webhook.
#[derive(Deserialize)]
struct ErrorBody {
    value: f64,
}

/// The fields that are read of an answer to `/api/v1/query`.
#[derive(Deserialize)]
struct Queried {
    status: String,
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Scalar((IgnoredAny, String)),
    Vector(Vec<Sample>),
}

#[derive(Deserialize)]
struct Sample {
    value: (IgnoredAny, String),
}

fn prometheus(body: &[u8]) -> Result<f64, NoAnswer> {
    let Queried { status, data } = serde_json::from_slice(body).map_err(|_| NoAnswer::NotANumber)?;
    if status != "success" {
        return Err(NoAnswer::ErrorStatus);
    }
    let text = match data.ok_or(NoAnswer::NotANumber)? {
        Data::Scalar((_, text)) => text,
        Data::Vector(samples) => match <[Sample; 1]>::try_from(samples) {
            Ok([Sample { value: (_, text) }]) => text,
            Err(samples) if samples.is_empty() => return Err(NoAnswer::NoSample),
            Err(_) => return Err(NoAnswer::SeveralSamples),
        },
    };
    text.parse().map_err(|_| NoAnswer::NotANumber)
}

#[cfg(test)]
mod tests {
    use super::*;
    use NoAnswer::{ErrorStatus, NoSample, NotANumber, NotFinite, SeveralSamples};

    fn check(kind: Kind, body: &str, wanted: Result<f64, NoAnswer>) {
        assert_eq!(read(kind, body.as_bytes()).map(f64::from), wanted, "{body}");
    }

    #[test]
    fn prometheus_answers_with_a_scalar_or_one_sample() {
        let of = |data: &str, wanted| check(Kind::Prometheus, &format!(r#"{{"status":"success","data":{data},"warnings":["w"]}}"#), wanted);
        let scalar = |number: &str| format!(r#"{{"resultType":"scalar","result":[1767225600.1,"{number}"]}}"#);
        let sample = |number: &str| format!(r#"{{"metric":{{"job":"a"}},"value":[1767225600,"{number}"]}}"#);
        let vector = |samples: &str| format!(r#"{{"resultType":"vector","result":[{samples}]}}"#);
        of(&scalar("0.97"), Ok(0.97));
        of(&vector(&sample("0")), Ok(0.0));
        of(&vector(&sample("-1e-3")), Ok(-1e-3));
        for number in ["NaN", "+Inf", "-Inf", "1e999"] {
            of(&scalar(number), Err(NotFinite));
            of(&vector(&sample(number)), Err(NotFinite));
        }
        of(&vector(""), Err(NoSample));
        of(&vector(&format!("{},{}", sample("1"), sample("1"))), Err(SeveralSamples));
        of(&scalar("ninety"), Err(NotANumber));
        of(&scalar(""), Err(NotANumber));
        of(r#"{"resultType":"matrix","result":[]}"#, Err(NotANumber));
        of(r#"{"resultType":"string","result":[1,"1"]}"#, Err(NotANumber));
        of(&vector(r#"{"metric":{},"histogram":[1,{"count":"1"}]}"#), Err(NotANumber));
        of("null", Err(NotANumber));
        check(Kind::Prometheus, r#"{"status":"error","errorType":"bad_data","error":"secret"}"#, Err(ErrorStatus));
        check(Kind::Prometheus, "<html>", Err(NotANumber));
        check(Kind::Prometheus, "", Err(NotANumber));
    }

    #[test]
    fn a_webhook_answers_with_a_number_of_that_name() {
        let check = |body: &str, wanted| check(Kind::Webhook, body, wanted);
        check(r#"{"value":1}"#, Ok(1.0));
        check(r#"{"value":0.97,"why":"fine"}"#, Ok(0.97));
        for body in
            [r#"{"value":"1"}"#, r#"{"value":true}"#, r#"{"value":null}"#, "1", "{}", r#"{"value":1e999}"#, r#"{"value":NaN}"#, "", "[1]"]
        {
            check(body, Err(NotANumber));
        }
        check(&format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)), Err(NotANumber));
    }
}
