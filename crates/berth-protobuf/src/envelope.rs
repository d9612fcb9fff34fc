//! The envelope of every body: four bytes, then a message that contains the API version and kind of the object.

use crate::{
    error::{DecodeError, Problem},
    schema::Schema,
    walk::{DEPTH_MAX, Writer, last},
    wire::Raw,
};

/// The content type of these bodies.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The first bytes of every body.
pub(crate) const PREFIX: &[u8] = b"k8s\0";

/// Returns the JSON of a whole protobuf body: `apiVersion` and `kind`, then the fields in the order of their numbers.
///
/// The JSON is what a Go client sends for the same object, without nulls. Unknown fields are skipped. The cost is one
/// pass over the bytes per level of nesting. Memory use is the JSON plus at most four times the body.
///
/// # Errors
/// The bytes are not such a body, the kind is unknown, or the JSON exceeds `json_bytes_max` (checked at each field).
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

/// Returns the first `N` fields of a message that has only fields of bytes. Missing fields are empty.
fn members<const N: usize>(bytes: &[u8]) -> Result<[&[u8]; N], DecodeError> {
    let mut found = [&[][..]; N];
    for (place, number) in found.iter_mut().zip(1..) {
        *place = last(bytes, number)?.map_or(Ok(&[][..]), Raw::bytes)?;
    }
    Ok(found)
}
