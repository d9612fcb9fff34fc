//! Values that a kube-apiserver has encrypted, beside which nothing is stored in clear.

use super::*;
use crate::{Decoded, Header};

const SECRETS: &str = "/registry/secrets/";
const MAPS: &str = "/registry/configmaps/";

/// Values that begin with `enc:` are encrypted.
struct Sealed;

impl Layout for Sealed {
    fn resource_prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
        [SECRETS, MAPS].into_iter().find(|prefix| text.starts_with(prefix)).map(|prefix| &text[..prefix.len()])
    }

    fn decode(&self, _: &Key, value: &[u8]) -> Decoded {
        if value.starts_with(b"enc:") { Decoded::Encrypted } else { Decoded::Unchanged }
    }

    fn header(&self, _: &Key, _: &[u8]) -> Header {
        Header::default()
    }
}

/// An etcd with these keys, and a store over it.
fn over_stored(stored: &[(&str, &str)]) -> TestStore {
    let mut test_store = TestStore::new(0);
    for (name, value) in stored {
        let put = Put { key: Key::new(name), expected: Some(Expected::Absent), value: Some((*value).to_owned().into()), lease: None };
        test_store.model.kept().apply(&[put]);
    }
    let env = Env {
        clock: Arc::new(test_store.time.clone()),
        rng: Arc::new(Seeded(Mutex::new(1))),
        spawner: Arc::new(test_store.process.clone()),
    };
    test_store.store = Arc::new(EtcdStore::new(Arc::clone(&test_store.model) as Arc<dyn Etcd>, Arc::new(Sealed), 1 << 20, &env));
    test_store
}

impl TestStore {
    fn put_at(&self, name: &str, expected: Expected) -> Result<u64, String> {
        self.write(Write::put(Key::new(name), "clear".to_owned().into(), expected, Purpose::Growth))
    }
}

#[test]
fn nothing_is_created_or_changed_in_clear_beside_encrypted_values() {
    let test_store =
        over_stored(&[("/registry/secrets/a/old", "enc:1"), ("/registry/secrets/a/clear", "x"), ("/registry/configmaps/a/m", "y")]);
    let refusal = "berth stores no plain text beside values that are encrypted at rest: 1 below /registry/secrets/ begin with k8s:enc:";
    for (name, expected) in [
        ("/registry/secrets/a/new", Expected::Absent),
        ("/registry/secrets/a/old", Expected::Absent),
        ("/registry/secrets/a/clear", Expected::At(Revision(3))),
    ] {
        let told = test_store.put_at(name, expected).expect_err("it would be in clear");
        assert!(told.starts_with(refusal), "{told}");
    }
    assert_eq!(test_store.model.kept().revision, 4, "nothing is written");
    assert_eq!(test_store.put_at("/registry/configmaps/a/n", Expected::Absent).map(drop), Ok(()), "of other resources anything");
    assert!(test_store.write(Write::delete(Key::new("/registry/secrets/a/clear"), Revision(3))).is_ok(), "a deletion stores nothing");
}

#[test]
fn what_becomes_encrypted_later_counts_as_well_and_what_is_deleted_no_more() {
    let test_store = over_stored(&[("/registry/secrets/a/clear", "x")]);
    assert_eq!(test_store.put_at("/registry/secrets/a/new", Expected::Absent).map(drop), Ok(()));
    let sealed = |expected, value: Option<&'static str>| {
        let put = Put { key: Key::new("/registry/secrets/a/sealed"), expected: Some(expected), value: value.map(Bytes::from), lease: None };
        match test_store.model.kept().apply(&[put]) {
            Outcome::Done(revision) => revision,
            refused @ Outcome::Refused { .. } => panic!("{refused:?}"),
        }
    };
    let made = sealed(Expected::Absent, Some("enc:2"));
    test_store.pass(1);
    assert!(test_store.put_at("/registry/secrets/a/later", Expected::Absent).is_err());
    sealed(Expected::At(made), None);
    test_store.pass(1);
    assert_eq!(test_store.put_at("/registry/secrets/a/later", Expected::Absent).map(drop), Ok(()));
}
