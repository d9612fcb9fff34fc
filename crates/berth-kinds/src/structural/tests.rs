use super::*;
use berth_api::{FieldError, Path};
use proptest::prelude::*;
use serde_json::json;

/// What Kubernetes 1.36.2 was asked about.
fn gauge() -> Structural {
    let spec = json!({"type": "object", "required": ["req"], "properties": {
        "req": {"type": "string"},
        "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10},
        "big": {"type": "integer", "format": "int64"},
        "ex": {"type": "number", "minimum": 1, "exclusiveMinimum": true, "maximum": 5, "exclusiveMaximum": true, "multipleOf": 0.5},
        "str": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
        "color": {"type": "string", "enum": ["red", "blue"]},
        "einty": {"type": "integer", "enum": [1, 2]},
        "flag": {"type": "boolean", "default": true},
        "ios": {"x-kubernetes-int-or-string": true},
        "when": {"type": "string", "format": "date-time"},
        "nul": {"type": "string", "nullable": true},
        "nuld": {"type": "string", "nullable": true, "default": "x"},
        "nnuld": {"type": "string", "default": "y"},
        "list": {"type": "array", "maxItems": 3, "minItems": 1, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "value": {"type": "integer", "default": 7}}}},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2, "minProperties": 1},
        "nested": {"type": "object", "default": {}, "properties": {
            "a": {"type": "string", "default": "d"}, "b": {"type": "object", "properties": {"c": {"type": "integer"}}}}},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"k": {"type": "object", "properties": {"x": {"type": "integer"}}}}},
        "emb": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        "one": {"type": "object", "properties": {"p": {"type": "string"}, "q": {"type": "string"}},
            "oneOf": [{"required": ["p"]}, {"required": ["q"]}]},
        "anyof": {"type": "object", "properties": {"p": {"type": "string"}, "q": {"type": "string"}},
            "anyOf": [{"required": ["p"]}, {"required": ["q"]}]},
        "nott": {"type": "object", "properties": {"p": {"type": "string"}}, "not": {"required": ["p"]}},
        "allof": {"type": "object", "properties": {"p": {"type": "string"}}, "allOf": [{"required": ["p"]}]},
    }});
    read(&json!({"type": "object", "required": ["spec"], "properties": {"spec": spec}})).expect("a structural schema")
}

fn read(schema: &Value) -> Result<Structural, Vec<FieldError>> {
    Structural::read(schema, &Path::new("schema"))
}

/// The object as a create would store it, and the fields that it lost.
fn settled(schema: &Structural, mut object: Value) -> (Value, Vec<String>) {
    let unknown = schema.prune(&mut object);
    schema.set_defaults(&mut object);
    (object, unknown)
}

fn with(base: &Value, member: &Value) -> Value {
    let mut spec = base.clone();
    for (name, value) in member.as_object().expect("an object") {
        spec[name] = value.clone();
    }
    json!({"spec": spec})
}

fn faults(schema: &Structural, object: Value) -> Vec<String> {
    let (object, _) = settled(schema, object);
    schema.validate(&object, None).iter().map(ToString::to_string).collect()
}

/// Kubernetes 1.36.2 was asked.
#[test]
fn numbers_are_compared_as_upstream_does() {
    let part = json!({
        "int": {"type": "integer", "minimum": 1.5},
        "any": {"type": "number", "minimum": 1.5},
        "small": {"type": "number", "maximum": 1.5, "exclusiveMaximum": true},
        "huge": {"type": "number", "maximum": 1e21},
        "max": {"type": "number", "maximum": 1_000_000},
        "half": {"type": "integer", "multipleOf": 0.5},
        "part": {"type": "number", "multipleOf": 0.5},
        "float": {"type": "number", "format": "float"},
        "int64": {"type": "integer", "format": "int64"},
        "ios": {"x-kubernetes-int-or-string": true},
        "set": {"type": "array", "items": {"type": "number"}, "x-kubernetes-list-type": "set"},
        "enum": {"type": "number", "enum": [1, 2.5, 1e21, 1_000_000]},
    });
    let schema =
        read(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": part}}})).expect("a structural schema");
    let boundary = "<nil>: Invalid value: \"\": Minimum boundary value must be of type integer (default format) in spec.int";
    let table: [(Value, &[&str]); 26] = [
        (json!({"int": 2}), &[boundary]),
        (json!({"int": 1}), &[boundary, "spec.int: Invalid value: 1: spec.int in body should be greater than or equal to 1.5"]),
        (json!({"any": 1}), &[]),
        (json!({"any": 0}), &["spec.any: Invalid value: 0: spec.any in body should be greater than or equal to 1"]),
        (json!({"any": 1.0}), &["spec.any: Invalid value: 1: spec.any in body should be greater than or equal to 1.5"]),
        (json!({"small": 1}), &["spec.small: Invalid value: 1: spec.small in body should be less than 1"]),
        (json!({"small": 1.0}), &[]),
        (json!({"huge": 1}), &["spec.huge: Invalid value: 1: spec.huge in body should be less than or equal to -9223372036854775808"]),
        (json!({"max": 1_000_001}), &["spec.max: Invalid value: 1000001: spec.max in body should be less than or equal to 1000000"]),
        (json!({"max": 1e7}), &["spec.max: Invalid value: 1e+07: spec.max in body should be less than or equal to 1e+06"]),
        (json!({"half": 2}), &["<nil>: Invalid value: \"\": MultipleOf value must be of type integer (default format) in spec.half"]),
        (json!({"part": 2}), &["spec.part: Invalid value: 0: factor MultipleOf declared for spec.part must be positive: 0"]),
        (json!({"part": 2.0}), &[]),
        (json!({"part": 0.7}), &["spec.part: Invalid value: 0.7: spec.part in body should be a multiple of 0.5"]),
        (json!({"float": 1e38}), &[]),
        (json!({"float": 1e39}), &["<nil>: Invalid value: \"\": Checked value must be of type number with format float in spec.float"]),
        (json!({"int64": 1e15}), &[]),
        (json!({"int64": 1e18}), &["spec.int64: Invalid value: \"float64\": spec.int64 in body must be of type int64: \"float64\""]),
        (
            json!({"int64": 1e19}),
            &[
                "spec.int64: Invalid value: \"float64\": spec.int64 in body must be of type int64: \"float64\"",
                "<nil>: Invalid value: \"\": Checked value must be of type integer with format int64 in spec.int64",
            ],
        ),
        (json!({"ios": 1.0}), &[]),
        (json!({"ios": 1.5}), &["spec.ios: Invalid value: \"number\": spec.ios in body must be of type integer,string: \"number\""]),
        (json!({"set": [1, 1.0]}), &[]),
        (json!({"set": [1.0, 1.0]}), &["spec.set[1]: Duplicate value: 1"]),
        (json!({"set": [1e21, 1e21]}), &["spec.set[1]: Duplicate value: 1e+21"]),
        (json!({"enum": 1e6}), &[]),
        (json!({"enum": 3}), &["spec.enum: Unsupported value: 3: supported values: \"1\", \"2.5\", \"1e+21\", \"1000000\""]),
    ];
    for (spec, wanted) in table {
        assert_eq!(faults(&schema, json!({ "spec": spec })), wanted, "{spec}");
    }
}

#[test]
fn faults_are_reported_in_upstreams_words() {
    let schema = gauge();
    let table: [(Value, &[&str]); 41] = [
        (json!({"size": "s"}), &["spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\""]),
        (
            json!({"size": 1.5}),
            &[
                "spec.size: Invalid value: \"float64\": spec.size in body must be of type int32: \"float64\"",
                "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.size",
            ],
        ),
        (json!({"size": 0}), &["spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"]),
        (json!({"size": 11}), &["spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"]),
        (
            json!({"size": 3_000_000_000_u32}),
            &[
                "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.size",
                "spec.size: Invalid value: 3000000000: spec.size in body should be less than or equal to 10",
            ],
        ),
        (json!({"big": 99_999_999_999_u64}), &[]),
        (
            json!({"ex": 1}),
            &[
                "spec.ex: Invalid value: 0: factor MultipleOf declared for spec.ex must be positive: 0",
                "spec.ex: Invalid value: 1: spec.ex in body should be greater than 1",
            ],
        ),
        (json!({"ex": 1.3}), &["spec.ex: Invalid value: 1.3: spec.ex in body should be a multiple of 0.5"]),
        (json!({"str": "a"}), &["spec.str: Invalid value: \"a\": spec.str in body should be at least 2 chars long"]),
        (json!({"str": "abcdef"}), &["spec.str: Too long: may not be more than 5 bytes"]),
        (json!({"str": "A1"}), &["spec.str: Invalid value: \"A1\": spec.str in body should match '^[a-z]+$'"]),
        (json!({"str": 1}), &["spec.str: Invalid value: \"integer\": spec.str in body must be of type string: \"integer\""]),
        (json!({"color": "green"}), &["spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\""]),
        (json!({"einty": 3}), &["spec.einty: Unsupported value: 3: supported values: \"1\", \"2\""]),
        (
            json!({"einty": "x"}),
            &[
                "spec.einty: Invalid value: \"string\": spec.einty in body must be of type integer: \"string\"",
                "spec.einty: Unsupported value: \"x\": supported values: \"1\", \"2\"",
            ],
        ),
        (json!({"flag": "x"}), &["spec.flag: Invalid value: \"string\": spec.flag in body must be of type boolean: \"string\""]),
        (json!({"ios": 1.5}), &["spec.ios: Invalid value: \"number\": spec.ios in body must be of type integer,string: \"number\""]),
        (json!({"ios": true}), &["spec.ios: Invalid value: \"boolean\": spec.ios in body must be of type integer,string: \"boolean\""]),
        (json!({"ios": "x"}), &[]),
        (json!({"when": "x"}), &["spec.when: Invalid value: \"x\": spec.when in body must be of type date-time: \"x\""]),
        (json!({"when": "2020-01-01T00:00:00Z"}), &[]),
        (json!({"list": []}), &["spec.list: Invalid value: 0: spec.list in body should have at least 1 items"]),
        (
            json!({"list": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "a"}]}),
            &["spec.list: Too many: 4: must have at most 3 items", "spec.list[3]: Duplicate value: {\"name\":\"a\"}"],
        ),
        (json!({"list": [{"value": 1}]}), &["spec.list[0].name: Required value"]),
        (
            json!({"list": [1]}),
            &[
                "spec.list[0]: Invalid value: \"integer\": spec.list[0] in body must be of type object: \"integer\"",
                "spec.list[0]: Invalid value: 1: must be an object for an array of list-type map",
            ],
        ),
        (json!({"list": {}}), &["spec.list: Invalid value: \"object\": spec.list in body must be of type array: \"object\""]),
        (json!({"list": [null]}), &["spec.list[0]: Invalid value: \"null\": spec.list[0] in body must be of type object: \"null\""]),
        (json!({"set": ["a", "a"]}), &["spec.set[1]: Duplicate value: \"a\""]),
        (json!({"map": {}}), &["spec.map: Invalid value: 0: spec.map in body should have at least 1 properties"]),
        (json!({"map": {"a": 1, "b": 2, "c": 3}}), &["spec.map: Too many: 3: must have at most 2 items"]),
        (json!({"map": {"a": "x"}}), &["spec.map.a: Invalid value: \"string\": spec.map.a in body must be of type integer: \"string\""]),
        (json!({"map": []}), &["spec.map: Invalid value: \"array\": spec.map in body must be of type object: \"array\""]),
        (json!({"any": {"a": {"b": 1}}}), &[]),
        (json!({"emb": {}}), &["spec.emb.apiVersion: Required value", "spec.emb.kind: Required value"]),
        (json!({"emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}}), &[]),
        (
            json!({"one": {"p": "a", "q": "b"}}),
            &["<nil>: Invalid value: \"\": \"spec.one\" must validate one and only one schema (oneOf). Found 2 valid alternatives"],
        ),
        (
            json!({"one": {}}),
            &[
                "<nil>: Invalid value: \"\": \"spec.one\" must validate one and only one schema (oneOf). Found none valid",
                "spec.one.p: Required value",
            ],
        ),
        (
            json!({"anyof": {}}),
            &["<nil>: Invalid value: \"\": \"spec.anyof\" must validate at least one schema (anyOf)", "spec.anyof.p: Required value"],
        ),
        (json!({"nott": {"p": "x"}}), &["<nil>: Invalid value: \"\": \"spec.nott\" must not validate the schema (not)"]),
        (
            json!({"allof": {}}),
            &[
                "spec.allof.p: Required value",
                "<nil>: Invalid value: \"\": \"spec.allof\" must validate all the schemas (allOf). None validated",
            ],
        ),
        (json!({"nested": "x"}), &["spec.nested: Invalid value: \"string\": spec.nested in body must be of type object: \"string\""]),
    ];
    for (member, wanted) in table {
        assert_eq!(faults(&schema, with(&json!({"req": "r"}), &member)), wanted, "{member}");
    }
    assert_eq!(faults(&schema, json!({"spec": {}})), ["spec.req: Required value"]);
    assert_eq!(faults(&schema, json!({"spec": null})), ["spec: Required value"]);
    let wanted = ["spec: Invalid value: \"string\": spec in body must be of type object: \"string\""];
    assert_eq!(faults(&schema, json!({"spec": "x"})), wanted);
}

#[test]
fn formats_are_those_that_upstream_checks() {
    let table = [
        ("date", "2020-01-31", "2020-13-01"),
        ("ipv4", "1.2.3.4", "1.2.3"),
        ("ipv6", "::1", "1.2.3.4"),
        ("cidr", "10.0.0.0/8", "1"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "z"),
        ("byte", "aGk=", "???"),
        ("duration", "1h30m", "5x"),
        ("uri", "https://example.com/a", "::"),
        ("email", "a@example.com", "a"),
        ("hostname", "a.example.com", "-a"),
        ("mac", "00:11:22:33:44:55", "00:11"),
        ("hexcolor", "#fff", "fff"),
        ("date-time", "2020-01-01T00:00:00.5+02:00", "2020-01-01"),
    ];
    for (format, good, bad) in table {
        let schema = Structural { kind: Some(Type::String), format: format.to_owned(), ..Structural::default() };
        assert_eq!(schema.validate(&json!(good), None), [], "{format}");
        let wanted = format!(": Invalid value: \"{bad}\":  in body must be of type {format}: \"{bad}\"");
        assert_eq!(schema.validate(&json!(bad), None).iter().map(ToString::to_string).collect::<Vec<_>>(), [wanted]);
    }
    let other = Structural { kind: Some(Type::String), format: "of-our-own".to_owned(), ..Structural::default() };
    assert_eq!(other.validate(&json!("x"), None), []);
}

#[test]
fn defaults_are_set_and_nulls_count_as_absent_where_they_are_not_allowed() {
    let schema = gauge();
    let all = json!({"flag": true, "nested": {"a": "d"}, "nnuld": "y", "nuld": "x", "req": "r"});
    for (member, wanted) in [
        (json!({}), json!({})),
        (json!({"nul": null}), json!({"nul": null})),
        (json!({"nuld": null}), json!({"nuld": null})),
        (json!({"nnuld": null, "size": null, "list": null, "any": null, "emb": null}), json!({})),
        (json!({"nested": null}), json!({})),
        (json!({"list": [{"name": "a"}]}), json!({"list": [{"name": "a", "value": 7}]})),
        (json!({"nested": {"b": {}}}), json!({"nested": {"a": "d", "b": {}}})),
    ] {
        let (object, unknown) = settled(&schema, with(&json!({"req": "r"}), &member));
        assert_eq!((object, unknown), (with(&all, &wanted), Vec::new()), "{member}");
    }
    assert!(schema.has_defaults() && !read(&json!({"type": "object"})).expect("structural").has_defaults());
}

#[test]
fn unknown_fields_go_and_are_reported_sorted() {
    let schema = gauge();
    let mut object = json!({
        "apiVersion": "example.com/v1", "kind": "Gauge", "metadata": {"any": 1}, "zzz": 1, "status": {"zz": 1},
        "spec": {"req": "r", "list": [{"name": "a", "zz": 1}], "map": {"a": 1}, "nested": {"q": 1, "b": {"z": 1}}, "any": {"x": {"y": 1}},
            "open": {"z": 1, "k": {"x": 1, "y": 2}}, "emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "foo": 1}},
    });
    let unknown = schema.prune(&mut object);
    assert_eq!(unknown, ["spec.list[0].zz", "spec.nested.b.z", "spec.nested.q", "spec.open.k.y", "status", "zzz"]);
    let wanted = json!({
        "apiVersion": "example.com/v1", "kind": "Gauge", "metadata": {"any": 1},
        "spec": {"req": "r", "list": [{"name": "a"}], "map": {"a": 1}, "nested": {"b": {}}, "any": {"x": {"y": 1}},
            "open": {"z": 1, "k": {"x": 1}}, "emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "foo": 1}},
    });
    assert_eq!(object, wanted);
    assert_eq!(schema.prune(&mut object), Vec::<String>::new());
}

#[test]
fn what_an_update_does_not_change_is_not_judged_again() {
    let schema = gauge();
    let old = json!({"spec": {"req": "r", "size": 11, "list": [{"name": "a", "value": "x"}, {"name": "b"}], "set": ["a", "a"]}});
    let check = |path: &str, value: Value, wanted: &[&str]| {
        let mut new = old.clone();
        *new.pointer_mut(path).expect("a field") = value;
        assert_eq!(schema.validate(&new, Some(&old)).iter().map(ToString::to_string).collect::<Vec<_>>(), wanted, "{path}");
    };
    check("/spec/req", json!("other"), &[]);
    check("/spec/size", json!(12), &["spec.size: Invalid value: 12: spec.size in body should be less than or equal to 10"]);
    // An element of a map is found by its key.
    check("/spec/list", json!([{"name": "b"}, {"name": "a", "value": "x"}]), &[]);
    let wanted = "spec.list[0].value: Invalid value: \"string\": spec.list[0].value in body must be of type integer: \"string\"";
    check("/spec/list", json!([{"name": "c", "value": "x"}]), &[wanted]);
}

#[test]
fn a_schema_that_is_not_structural_is_rejected_in_upstreams_words() {
    let table: [(Value, &[&str]); 30] = [
        (json!({}), &["schema.properties[spec].type: Required value: must not be empty for specified object fields"]),
        (json!({"type": "array"}), &["schema.properties[spec].items: Required value: must be specified"]),
        (
            json!({"type": "array", "items": {}}),
            &["schema.properties[spec].items.type: Required value: must not be empty for specified array items"],
        ),
        (
            json!({"type": "foo"}),
            &[
                "schema.properties[spec].type: Unsupported value: \"foo\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \
                 \"object\", \"string\"",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            &["schema.properties[spec].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
        ),
        (json!({"type": "object", "additionalProperties": false}), &[]),
        (
            json!({"type": "array", "items": {"type": "object"}, "uniqueItems": true}),
            &["schema.properties[spec].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes \
                 quadratic"],
        ),
        (json!({"type": "string", "$ref": "#/x"}), &["schema.properties[spec].$ref: Forbidden: $ref is not supported"]),
        (json!({"type": "string", "nullable": true, "default": null}), &[]),
        (
            json!({"type": "string", "default": 1}),
            &["schema.properties[spec].default: Invalid value: \"integer\":  in body must be of type string: \"integer\""],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "default": {"b": 1}}),
            &["schema.properties[spec].default: Invalid value: {\"b\":1}: must not have unknown fields"],
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}),
            &["schema.properties[spec].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"],
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["z"]}),
            &["schema.properties[spec].x-kubernetes-list-map-keys: Invalid value: [\"z\"]: entries must all be names of item properties"],
        ),
        (
            json!({"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"]}),
            &[
                "schema.properties[spec].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it \
                 must have a default or be a required property",
            ],
        ),
        (
            json!({"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]},
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "k"]}),
            &["schema.properties[spec].x-kubernetes-list-map-keys: Invalid value: [\"k\",\"k\"]: must not contain duplicate entries"],
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}),
            &["schema.properties[spec].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with \
                 x-kubernetes-list-type=set"],
        ),
        (
            json!({"type": "object", "x-kubernetes-list-type": "set"}),
            &["schema.properties[spec].type: Invalid value: \"object\": must be array if x-kubernetes-list-type is specified"],
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "zz"}),
            &["schema.properties[spec].x-kubernetes-list-type: Unsupported value: \"zz\": supported values: \"atomic\", \"set\", \"map\""],
        ),
        (
            json!({"type": "string", "x-kubernetes-map-type": "atomic"}),
            &["schema.properties[spec].type: Invalid value: \"string\": must be object if x-kubernetes-map-type is specified"],
        ),
        (
            json!({"type": "object", "x-kubernetes-map-type": "zz"}),
            &["schema.properties[spec].x-kubernetes-map-type: Unsupported value: \"zz\": supported values: \"atomic\", \"granular\""],
        ),
        (json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}), &[]),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
            &["schema.properties[spec].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
        ),
        (
            json!({"type": "string", "x-kubernetes-embedded-resource": true}),
            &[
                "schema.properties[spec].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without \
                 x-kubernetes-preserve-unknown-fields",
                "schema.properties[spec].type: Invalid value: \"string\": must be object if x-kubernetes-embedded-resource is true",
            ],
        ),
        (
            json!({"type": "object", "anyOf": [{"properties": {"q": {"type": "string"}}}]}),
            &["schema.properties[spec].anyOf[0].properties[q].type: Forbidden: must be empty to be structural"],
        ),
        (
            json!({"type": "object", "allOf": [{"type": "object"}]}),
            &["schema.properties[spec].allOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (
            json!({"type": "object", "anyOf": [{"type": "integer"}]}),
            &["schema.properties[spec].anyOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (
            json!({"type": "object", "allOf": [{"description": "x"}]}),
            &["schema.properties[spec].allOf[0].description: Forbidden: must be empty to be structural"],
        ),
        (
            json!({"type": "object", "not": {"default": 1}}),
            &["schema.properties[spec].not.default: Forbidden: must be undefined to be structural"],
        ),
        (json!({"type": "string", "format": "zzz"}), &[]),
        // The kind of definitions reports it.
        (json!({"type": "string", "maxLenght": 1}), &[]),
    ];
    for (spec, wanted) in table {
        let found = read(&json!({"type": "object", "properties": {"spec": spec}})).err().unwrap_or_default();
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), wanted, "{spec}");
    }
    let check = |schema: Value, wanted: &str| assert_eq!(read(&schema).expect_err("rejected")[0].to_string(), wanted);
    check(json!({}), "schema.type: Required value: must not be empty at the root");
    check(json!({"type": "array", "items": {"type": "string"}}), "schema.type: Invalid value: \"array\": must be object at the root");
    let metadata = json!({"type": "object", "properties": {"labels": {"type": "object"}}});
    let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
    check(json!({"type": "object", "properties": {"metadata": metadata}}), &format!("schema.properties[metadata]: Forbidden: {why}"));
    let why = "schema.properties[kind].type: Invalid value: \"integer\": must be string";
    check(json!({"type": "object", "properties": {"kind": {"type": "integer"}}}), why);
    let pattern = json!({"type": "object", "properties": {"spec": {"type": "string", "pattern": "["}}});
    let found = read(&pattern).expect_err("rejected")[0].to_string();
    assert!(
        found.starts_with("schema.properties[spec].pattern: Invalid value: \"[\": must be a valid regular expression, but isn't:"),
        "{found}"
    );
}

#[test]
fn a_schema_is_as_deep_as_it_may_be() {
    let nested =
        |depth: usize| (0..depth).fold(json!({"type": "string"}), |inner, _| json!({"type": "object", "properties": {"a": inner}}));
    assert!(read(&nested(DEPTH_MAX)).is_ok());
    let faults = read(&nested(DEPTH_MAX + 1)).expect_err("too deep");
    assert!(faults[0].to_string().ends_with("must not be nested more than 100 levels deep"), "{}", faults[0]);
}

#[test]
fn a_schema_is_written_as_it_was_read() {
    let schema = gauge();
    assert_eq!(read(&schema.to_value()).expect("what was written is structural"), schema);
    let published = schema.to_openapi(&json!({"$ref": "#/meta"}));
    let spec = &published["properties"]["spec"]["properties"];
    assert_eq!(spec["ios"], json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true}));
    assert_eq!(spec["emb"]["required"], json!(["kind", "apiVersion"]));
    assert_eq!(spec["emb"]["properties"]["metadata"], json!({"$ref": "#/meta"}));
    assert_eq!(spec["list"]["items"]["properties"]["value"], json!({"type": "integer", "default": 7}));
}

/// If each level were judged twice, this would take as long as the machine lives.
#[test]
fn nested_alternatives_are_judged_once() {
    for word in ["anyOf", "oneOf"] {
        let nested = (0..60).fold(json!({"required": ["z"]}), |inner, _| json!({ word: [inner, {"required": ["y"]}] }));
        let schema = read(&json!({"type": "object", "properties": {"spec": {"type": "object", word: [nested]}}})).expect("structural");
        assert!(!schema.validate(&json!({"spec": {}}), None).is_empty());
    }
}

#[test]
fn members_beside_a_schema_are_kept_empty_or_forbidden() {
    let open = json!({"type": "object", "additionalProperties": true});
    let schema = read(&json!({"type": "object", "properties": {
        "spec": open, "closed": {"type": "object", "additionalProperties": false},
        "list": {"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "set"},
    }}))
    .expect("structural");
    let mut object = json!({"spec": {"x": {"y": {"z": 1}}, "l": [{"q": 1}, 2]}, "closed": {"x": {"y": 1}}, "list": [1, 1, 1]});
    assert_eq!(schema.prune(&mut object), ["closed.x.y", "spec.l[0].q", "spec.x.y"]);
    assert_eq!(object, json!({"spec": {"x": {}, "l": [{}, 2]}, "closed": {"x": {}}, "list": [1, 1, 1]}));
    let faults: Vec<String> = schema.validate(&object, None).iter().map(ToString::to_string).collect();
    assert_eq!(faults, ["closed: Invalid value: \"x\": closed.x in body is a forbidden property", "list[1]: Duplicate value: 1"]);
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z]{0,3}".prop_map(Value::from)
    ];
    let names = prop_oneof!["spec|req|size|list|set|map|nested|name|value|one|ios|a|b|c", "[a-z]{1,3}"];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        let members = prop::collection::btree_map(names.clone(), inner.clone(), 0..5);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            members.prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Twice is once, and what was settled has no unknown fields.
    #[test]
    fn any_value_is_settled_once_and_for_all(spec in any_value()) {
        let schema = gauge();
        let (once, _) = settled(&schema, json!({"spec": spec}));
        let (twice, unknown) = settled(&schema, once.clone());
        prop_assert_eq!(&twice, &once);
        prop_assert_eq!(unknown, Vec::<String>::new());
        prop_assert_eq!(schema.validate(&once, Some(&once)).len(), 0);
    }

    #[test]
    fn any_value_is_read_as_a_schema_or_rejected(schema in any_value()) {
        if let Ok(read) = read(&schema) {
            prop_assert_eq!(Structural::read(&read.to_value(), &Path::new("")).expect("structural"), read);
        }
    }
}
