//! What every body is wrapped in: four bytes, then a message that says which kind follows.

use crate::{
    error::{DecodeError, Problem},
    schema::Schema,
    walk::{DEPTH_MAX, Writer, last},
    wire::Raw,
};

/// The content type of these bodies.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// What every body starts with.
pub(crate) const PREFIX: &[u8] = b"k8s\0";

/// The JSON of a whole protobuf body, `apiVersion` and `kind` first, then the fields in the order of their numbers.
///
/// It is what a Go client would have sent for the same object, without nulls. Fields that the table does not know are skipped.
/// Costs one pass over the bytes a level of nesting; takes memory for the JSON and at most four times the body besides.
///
/// # Errors
/// Bytes that are no such body, of a kind that is not known, or that would be more than `json_bytes_max` as JSON (checked field by field).
pub fn to_json(body: &[u8], json_bytes_max: usize) -> Result<Vec<u8>, DecodeError> {
    let mut writer = Writer::new(json_bytes_max);
    document(&mut writer, body, DEPTH_MAX)?;
    Ok(writer.finish())
}

/// Writes the object in `body`.
pub(crate) fn document(writer: &mut Writer, body: &[u8], depth: usize) -> Result<(), DecodeError> {
    let envelope = body.strip_prefix(PREFIX).ok_or(DecodeError::Prefix)?;
    let [type_meta, object, encoding, content_type] = members(envelope)?;
    let [api_version, kind] = members(type_meta)?.map(|raw: &[u8]| std::str::from_utf8(raw).map_err(|_| Problem::Utf8));
    let (api_version, kind) = (api_version?, kind?);
    for stated in [encoding, content_type] {
        if !stated.is_empty() && stated != MEDIA_TYPE.as_bytes() {
            return Err(DecodeError::Encoding(String::from_utf8_lossy(stated).into_owned()));
        }
    }
    if kind.is_empty() {
        return Err(DecodeError::NoKind);
    }
    let unknown = || DecodeError::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() };
    let message = Schema::get().find(api_version, kind).ok_or_else(unknown)?;
    writer.typed_object(api_version, kind, message, object, depth)
}

/// The first `N` fields of a message that has only fields of bytes; those that are missing are empty.
fn members<const N: usize>(bytes: &[u8]) -> Result<[&[u8]; N], DecodeError> {
    let mut found = [&[][..]; N];
    for (place, number) in found.iter_mut().zip(1..) {
        *place = last(bytes, number)?.map_or(Ok(&[][..]), Raw::bytes)?;
    }
    Ok(found)
}
