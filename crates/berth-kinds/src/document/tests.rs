use crate::{
    Cell, Column, Content, Conversion, Convert, ConvertError, Definition, Document, JsonPath, Kind, KindVersion, Names, ScalePaths,
    SelectableField, Strategy, Structural, Version,
};
use berth_api::{
    FeatureGates, FieldError, Object, ObjectRules, ObjectStrategy, Path, Scope, Subresource,
    object::{FinalizerRule, ScaledSelector},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// `v2` calls the size `length`.
struct Renamed;

impl Convert for Renamed {
    fn convert(&self, object: &mut Value, _: &str, to: &str) -> Result<(), ConvertError> {
        let (before, after) = if to == "v2" { ("size", "length") } else { ("length", "size") };
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        spec.remove(before).and_then(|value| spec.insert(after.to_owned(), value));
        Ok(())
    }
}

/// A color that is chosen stays.
struct Fixed;

impl Strategy for Fixed {
    fn validate_update(&self, object: &Content, old: &Content, subresource: Option<Subresource>) -> Vec<FieldError> {
        let color = |object: &Content| object.members()["spec"]["color"].clone();
        let is_changed = subresource.is_none() && color(old) != color(object);
        is_changed.then(|| FieldError::forbidden(&Path::new("spec").child("color"), "")).into_iter().collect()
    }
}

fn version(name: &str, size: &str) -> Version {
    let spec = json!({"type": "object", "properties": {
        size: {"type": "integer", "default": 1, "maximum": 10}, "color": {"type": "string"}, "replicas": {"type": "integer"}}});
    let status = json!({"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}});
    let schema = json!({"type": "object", "required": ["spec", "metadata"], "properties": {"spec": spec, "status": status,
        "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}}}});
    let path = |text: &str| JsonPath::parse(text).expect("a path");
    Version {
        name: name.to_owned(),
        served: true,
        schema: Structural::read(&schema, &Path::new("schema")).expect("structural"),
        status: true,
        scale: Some(ScalePaths {
            spec_replicas: path(".spec.replicas"),
            status_replicas: path(".status.replicas"),
            label_selector: Some(path(".status.selector")),
        }),
        columns: vec![Column { cell: Cell::Path(path(".spec.color")), ..Column::of_name("") }],
        selectable_fields: vec![SelectableField::at(&path(".spec.color")).expect("fields")],
        ..Version::default()
    }
}

fn definition() -> Definition {
    let names = Names { kind: "Widget".to_owned(), plural: "widgets".to_owned(), singular: "widget".to_owned(), ..Names::default() };
    Definition {
        group: "example.com".to_owned(),
        names,
        scope: Scope::Namespaced,
        versions: vec![version("v1", "size"), Version { storage: true, ..version("v2", "length") }],
        conversion: Conversion::By(Arc::new(Renamed)),
        strategy: Some(Arc::new(Fixed)),
        form: crate::Form::Custom,
        rules: ObjectRules::default(),
        empty: Definition::only_metadata(),
        pod_template: &[],
    }
}

fn versions() -> [KindVersion; 2] {
    let kind = Kind::new(definition()).expect("it does not contradict itself");
    kind.served().collect::<Vec<_>>().try_into().expect("two")
}

fn widget(kind: &KindVersion, spec: Value) -> Document {
    kind.decode(json!({"metadata": {"name": "w"}, "spec": spec})).expect("decodes").0
}

fn texts(faults: &[FieldError]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn an_object_is_stored_in_one_version_and_shown_in_all() {
    let [v1, v2] = versions();
    let mut object = widget(&v1, json!({"size": 3}));
    let stored = v1.to_stored(&object).expect("converts");
    assert_eq!(
        String::from_utf8_lossy(&stored),
        r#"{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"w"},"spec":{"length":3}}"#
    );
    let shown = v1.from_stored(&stored).expect("converts").expect("another version");
    assert_eq!(shown, object.encode());
    assert_eq!(v2.from_stored(&stored), Ok(None));
    object.set_defaults();
    let read = v1.decode_stored(&shown).expect("decodes");
    assert!(read.same_as(&object) && !read.same_as(&widget(&v2, json!({"length": 3}))));
}

#[test]
fn a_stored_object_is_shown_with_defaults_and_without_fields_that_went() {
    let [_, v2] = versions();
    let stored = br#"{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"w"},"spec":{"gone":1}}"#;
    let shown = v2.from_stored(stored).expect("converts").expect("it changed");
    assert_eq!(
        String::from_utf8_lossy(&shown),
        r#"{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"w"},"spec":{"length":1}}"#
    );
    let strange = br#"{"apiVersion":"example.com/v3","kind":"Widget","metadata":{"name":"w"}}"#;
    let error = v2.from_stored(strange).expect_err("no version of it").to_string();
    assert_eq!(error, "conversion from a stored object to example.com/v2 failed: example.com/v3 is no version of it");
}

/// Kubernetes 1.36.2 was asked.
#[test]
fn another_version_shows_the_defaults_of_the_stored_one_alone() {
    let spec = |fields: Value| {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
        Structural::read(&schema, &Path::new("schema")).expect("structural")
    };
    let text = |default: &str| json!({"type": "string", "default": default});
    let version = |name: &str, schema| Version { name: name.to_owned(), served: true, storage: name == "v1", schema, ..Version::default() };
    let first = version("v1", spec(json!({"both": text("first"), "first": text("first"), "plain": {"type": "string"}})));
    let second = version("v2", spec(json!({"both": text("second"), "second": text("second"), "plain": text("second")})));
    let definition = Definition { versions: vec![first, second], conversion: Conversion::None, ..definition() };
    let kind = Kind::new(definition).expect("it does not contradict itself");
    let mut served = kind.served();
    let (v1, v2) = (served.next().expect("served"), served.next().expect("served"));
    let mut object = v2.decode(json!({"metadata": {"name": "w"}, "spec": {"second": "mine"}})).expect("decodes").0;
    object.set_defaults();
    let stored = v2.to_stored(&object).expect("converts");
    let spec_of = |json: &[u8]| serde_json::from_slice::<Value>(json).expect("JSON")["spec"].clone();
    // The storage version does not have the field.
    assert_eq!(spec_of(&stored), json!({"both": "second", "plain": "second"}));
    let old = br#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{}}"#;
    let shown = |version: &KindVersion| spec_of(&version.from_stored(old).expect("converts").expect("it has defaults"));
    assert_eq!(shown(&v1), json!({"both": "first", "first": "first"}));
    assert_eq!(shown(&v2), json!({"both": "first"}));
}

/// Kubernetes 1.36.2 was asked.
#[test]
fn a_null_that_is_not_allowed_is_removed_except_from_what_is_applied() {
    let [v1, _] = versions();
    let sent = || json!({"metadata": {"name": "w"}, "spec": {"size": null, "color": null}});
    let settled = |decoded: (Document, Vec<String>)| {
        let mut object = decoded.0;
        object.set_defaults();
        (object.content().members()["spec"].clone(), texts(&object.validate(&FeatureGates::default())))
    };
    assert_eq!(settled(v1.decode(sent()).expect("decodes")), (json!({"size": 1}), Vec::new()));
    let (spec, faults) = settled(v1.decode_applied(sent()).expect("decodes"));
    assert_eq!(spec, json!({"size": 1, "color": null}));
    assert_eq!(faults, ["spec.color: Invalid value: \"null\": spec.color in body must be of type string: \"null\""]);
}

#[test]
fn type_and_metadata_are_typed_and_unknown_fields_are_named() {
    let [v1, _] = versions();
    let sent = json!({"kind": "Widget", "metadata": {"name": "w", "zz": 1, "labels": {}}, "spec": {"length": 1}, "bogus": 1});
    let (object, unknown) = v1.decode(sent).expect("decodes");
    assert_eq!(unknown, ["bogus", "metadata.zz", "spec.length"]);
    assert_eq!(object.to_value(), json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}));
    let refused = |value: Value| v1.decode(value).expect_err("refused").to_string();
    assert_eq!(refused(json!({"metadata": {"labels": {"a": 1}}})), "metadata.labels.a: invalid type: integer `1`, expected a string");
    assert_eq!(refused(json!({"apiVersion": "v1"})), "invalid value: string \"v1\", expected example.com/v1");
}

#[test]
fn each_endpoint_writes_its_part_and_the_spec_raises_the_generation() {
    let [v1, _] = versions();
    let gates = FeatureGates::default();
    let with_status = |size: i64, replicas: i64| {
        let sent = json!({"metadata": {"name": "w"}, "spec": {"size": size}, "status": {"replicas": replicas}});
        v1.decode(sent).expect("decodes").0
    };
    let mut made = with_status(1, 1);
    made.prepare_create(&gates);
    assert_eq!(made.content().members(), &json!({"spec": {"size": 1}}));
    let old = with_status(1, 1);
    let (mut spec, mut status) = (with_status(2, 2), with_status(2, 2));
    spec.prepare_update(&old, None, &gates);
    status.prepare_update(&old, Some(Subresource::Status), &gates);
    assert_eq!(spec.content().members(), &json!({"spec": {"size": 2}, "status": {"replicas": 1}}));
    assert_eq!(status.content().members(), &json!({"spec": {"size": 1}, "status": {"replicas": 2}}));
    assert!(spec.spec_differs(&old) && !status.spec_differs(&old));
}

#[test]
fn schema_scale_and_strategy_judge_an_object() {
    let [v1, _] = versions();
    let gates = FeatureGates::default();
    let (sent, _) = v1.decode(json!({"metadata": {"name": "longer"}, "spec": {"size": 11, "replicas": -1}})).expect("decodes");
    let wanted = [
        "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10",
        "metadata.name: Too long: may not be more than 5 bytes",
        "spec.replicas: Invalid value: -1: should be a non-negative integer",
    ];
    assert_eq!(texts(&sent.validate(&gates)), wanted);
    let (red, blue) = (widget(&v1, json!({"color": "red"})), widget(&v1, json!({"color": "blue"})));
    assert_eq!(texts(&blue.validate_update(&red, None, &gates)), ["spec.color: Forbidden"]);
    assert_eq!(blue.validate_update(&red, Some(Subresource::Status), &gates), []);
    assert_eq!(texts(&widget(&v1, json!({"size": "x"})).validate(&gates)).len(), 1);
}

#[test]
fn scale_reads_and_writes_where_its_paths_lead() {
    let [v1, _] = versions();
    let (mut object, _) = v1.decode(json!({"metadata": {"name": "w"}, "status": {"replicas": 2, "selector": "a=b"}})).expect("decodes");
    object.set_replicas(3);
    assert_eq!(object.content().members()["spec"], json!({"replicas": 3}));
    let scaled = object.scale().expect("it has replicas");
    assert_eq!((scaled.replicas, scaled.current), (Some(3), 2));
    assert!(matches!(scaled.selector, Some(ScaledSelector::Text("a=b"))));
}

#[test]
fn a_definition_that_contradicts_itself_is_rejected() {
    let check = |change: &dyn Fn(&mut Definition), wanted: &[&str]| {
        let mut definition = definition();
        change(&mut definition);
        assert_eq!(texts(&Kind::new(definition).err().unwrap_or_default()), wanted);
    };
    let path = |text: &str| JsonPath::parse(text).expect("a path");
    check(&|_| (), &[]);
    let one = "must have exactly one version marked as storage version";
    check(&|all| all.versions[1].storage = false, &[&format!("spec.versions: Invalid value: [\"v1\",\"v2\"]: {one}")]);
    check(&|all| all.versions[0].storage = true, &[&format!("spec.versions: Invalid value: [\"v1\",\"v2\"]: {one}")]);
    check(&|all| all.versions.clear(), &[&format!("spec.versions: Invalid value: []: {one}")]);
    check(
        &|all| all.versions[0].name = "v2".to_owned(),
        &["spec.versions: Invalid value: [\"v2\",\"v2\"]: must contain unique version names"],
    );
    check(&|all| all.group = "example".to_owned(), &["spec.group: Invalid value: \"example\": should be a domain with at least one dot"]);
    let fault = |change: &dyn Fn(&mut Definition)| {
        let mut definition = definition();
        change(&mut definition);
        texts(&Kind::new(definition).expect_err("rejected"))[0].clone()
    };
    assert!(
        fault(&|all| all.names.plural = "Widgets".to_owned())
            .starts_with("spec.names.plural: Invalid value: \"Widgets\": a DNS-1035 label")
    );
    assert!(
        fault(&|all| all.names.kind = "a_b".to_owned()).starts_with("spec.names.kind: Invalid value: \"a_b\": may have mixed case, but")
    );
    assert!(fault(&|all| all.versions[0].name = "V_1".to_owned()).starts_with("spec.versions[0].name: Invalid value: \"V_1\": a DNS-1035"));
    check(
        &|all| all.versions[0].deprecation_warning = Some(String::new()),
        &["spec.versions[0].deprecationWarning: Invalid value: \"\": must not be an empty string"],
    );
    check(
        &|all| all.versions[0].columns[0].kind = "z".to_owned(),
        &["spec.versions[0].additionalPrinterColumns[0].type: Invalid value: \"z\": must be one of boolean,date,integer,number,string"],
    );
    check(
        &|all| all.versions[0].scale.as_mut().expect("it has one").status_replicas = path(".spec.x"),
        &["spec.versions[0].subresources.scale.statusReplicasPath: Invalid value: \".spec.x\": should be a json path under .status"],
    );
    let field = |text: &str| SelectableField::at(&path(text)).expect("fields");
    let invalid = "is an invalid path: does not refer to a valid field";
    check(
        &|all| all.versions[0].selectable_fields.push(field(".spec.none")),
        &[&format!("spec.versions[0].selectableFields[1].jsonPath: Invalid value: \".spec.none\": {invalid}")],
    );
    check(
        &|all| all.versions[0].selectable_fields.push(field(".spec.color")),
        &["spec.versions[0].selectableFields[1].jsonPath: Duplicate value: \".spec.color\""],
    );
    let scalar = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
    check(
        &|all| all.versions[0].selectable_fields.push(field(".spec")),
        &[&format!("spec.versions[0].selectableFields[1].jsonPath: Invalid value: \".spec\": {scalar}")],
    );
    assert_eq!(SelectableField::at(&path(".spec.a[0]")), Err(invalid));
}

#[test]
fn numbers_without_a_fraction_are_written_as_integers() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    let schema = Structural::read(&schema, &Path::new("schema")).expect("structural");
    let version = Version { name: "v1".to_owned(), served: true, storage: true, schema, ..Version::default() };
    let kind = Kind::new(Definition { versions: vec![version], ..definition() }).expect("it does not contradict itself");
    let spec = json!({"a": 1.0, "b": 1e21, "c": 0.5, "d": 12_345_678_901_234_567_890_u64, "e": [1e-7]});
    let object = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec});
    let (document, _) = kind.served().next().expect("served").decode(object).expect("a widget");
    let text = String::from_utf8(document.encode()).expect("JSON is text");
    assert!(text.ends_with(r#""spec":{"a":1,"b":1e+21,"c":0.5,"d":12345678901234567000,"e":[1e-7]}}"#), "{text}");
}

#[test]
fn a_custom_resource_warns_of_finalizers_without_a_domain() {
    let kind = Kind::new(definition()).expect("it does not contradict itself");
    let version = kind.served().next().expect("it is served");
    let widget = |finalizers: Value| {
        let meta = json!({"name": "a", "namespace": "b", "finalizers": finalizers});
        let object = json!({"apiVersion": version.api_version(), "kind": "Widget", "metadata": meta, "spec": {}});
        version.decode(object).expect("a widget").0
    };
    let (none, one) = (widget(json!([])), widget(json!(["kubernetes", "plain", "example.com/f"])));
    let wanted = "metadata.finalizers: \"plain\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers";
    assert_eq!(one.warnings(None), [wanted]);
    assert_eq!(one.warnings(Some(&none)), [wanted]);
    assert_eq!(one.warnings(Some(&one)), [""; 0]);
    assert_eq!(one.rules().finalizer_rule, FinalizerRule::Plain);
}
