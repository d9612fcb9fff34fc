//! interim
use crate::*;
use serde_json::Value;
pub(crate) fn json(_d: &Value, _p: &[u8]) -> Result<Value, ApiError> {
    Err(ApiError::Unprocessable)
}
pub(crate) fn strategic(d: &Value, p: &Value, _r: &Resource) -> Result<Value, ApiError> {
    Ok(merge(d.clone(), p))
}
pub(crate) fn merge(doc: Value, patch: &Value) -> Value {
    let Value::Object(p) = patch else { return patch.clone() };
    let mut out = doc.as_object().cloned().unwrap_or_default();
    for (k, v) in p {
        if v.is_null() {
            out.remove(k);
        } else {
            let old = out.remove(k).unwrap_or(Value::Null);
            out.insert(k.clone(), merge(old, v));
        }
    }
    Value::Object(out)
}
