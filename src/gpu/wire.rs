//! Owns how a struct with `Reading` fields becomes JSON: each reading is the value or `null`, and where it is null
//! `<field>_reason` stands beside it. A macro, because serde has no attribute that yields two fields from one.

use std::borrow::Cow;

use schemars::{Schema, json_schema};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Error, MapAccess};
use serde_json::Value;

/// Declares a struct of plain fields and `Reading` fields with the wire form of the contract. A field of `added` came later:
/// the JSON has it only where it is not the default, which is what its absence means.
/// Unknown fields are ignored when reading, so that the stream may grow.
macro_rules! readings {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            plain { $( $(#[$pmeta:meta])* $plain:ident : $ptype:ty, )* }
            readings { $( $(#[$rmeta:meta])* $reading:ident : $rtype:ty, )* }
            $( added { $( $(#[$ameta:meta])* $added:ident : $atype:ty, )* } )?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[$pmeta])* pub $plain: $ptype, )*
            $( $(#[$rmeta])* pub $reading: $crate::gpu::reading::Reading<$rtype>, )*
            $( $( $(#[$ameta])* pub $added: $atype, )* )?
        }

        impl $name {
            /// One without a figure, for this reason.
            pub(crate) fn unread(reason: &$crate::gpu::reading::Reading<std::convert::Infallible>) -> $name {
                $name {
                    $( $plain: Default::default(), )*
                    $( $reading: reason.clone().map(|never| match never {}), )*
                    $( $( $added: Default::default(), )* )?
                }
            }

            /// Writes all fields except `left_out`, which the caller writes in a form of its own.
            pub(crate) fn write_fields<M>(&self, map: &mut M, left_out: &str) -> Result<(), M::Error>
            where
                M: serde::ser::SerializeMap,
            {
                $(
                    if stringify!($plain) != left_out {
                        map.serialize_entry(stringify!($plain), &self.$plain)?;
                    }
                )*
                $(
                    if stringify!($reading) != left_out {
                        map.serialize_entry(stringify!($reading), &self.$reading.known())?;
                        if let Some(reason) = self.$reading.reason() {
                            map.serialize_entry(concat!(stringify!($reading), "_reason"), &reason)?;
                        }
                    }
                )*
                $( $(
                    if !$crate::gpu::wire::is_default(&self.$added) {
                        map.serialize_entry(stringify!($added), &self.$added)?;
                    }
                )* )?
                Ok(())
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name::unread(&$crate::gpu::reading::Reading::NotAvailable)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let mut map = serializer.serialize_map(None)?;
                self.write_fields(&mut map, "")?;
                map.end()
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $(#[$meta])*
                #[derive(serde::Serialize, schemars::JsonSchema)]
                #[allow(dead_code, reason = "the type describes the JSON and is never built")]
                struct Fields {
                    $( $(#[$pmeta])* $plain: $ptype, )*
                    $( $(#[$rmeta])* $reading: Option<$rtype>, )*
                    $( $( $(#[$ameta])* #[serde(default, skip_serializing_if = "crate::gpu::wire::is_default")] $added: $atype, )* )?
                }
                let mut schema = Fields::json_schema(generator);
                $( $crate::gpu::wire::describe_reason(&mut schema, stringify!($reading)); )*
                schema
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                use $crate::gpu::wire::{Name, next};
                struct Fields;
                impl<'de> serde::de::Visitor<'de> for Fields {
                    type Value = $name;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        formatter.write_str(stringify!($name))
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        $( let mut $plain: Option<$ptype> = None; )*
                        $( let mut $reading: (Option<$rtype>, Option<String>) = (None, None); )*
                        $( $( let mut $added = <$atype>::default(); )* )?
                        while let Some(Name(name)) = map.next_key::<Name<'de>>()? {
                            match &*name {
                                $( stringify!($plain) => $plain = Some(next(&mut map, stringify!($plain))?), )*
                                $(
                                    stringify!($reading) => $reading.0 = next(&mut map, stringify!($reading))?,
                                    concat!(stringify!($reading), "_reason") => {
                                        $reading.1 = next(&mut map, concat!(stringify!($reading), "_reason"))?;
                                    }
                                )*
                                $( $( stringify!($added) => $added = next(&mut map, stringify!($added))?, )* )?
                                _ => { map.next_value::<serde::de::IgnoredAny>()?; }
                            }
                        }
                        Ok($name {
                            $( $plain: $plain.map_or_else(|| $crate::gpu::wire::missing(stringify!($plain)), Ok)?, )*
                            $( $reading: $crate::gpu::reading::Reading::from_parts($reading.0, $reading.1.as_deref()), )*
                            $( $( $added, )* )?
                        })
                    }
                }
                deserializer.deserialize_map(Fields)
            }
        }
    };
}
pub(crate) use readings;

/// Whether a field that came later says nothing, so that the JSON leaves it out.
pub(crate) fn is_default<T: Default + PartialEq>(field: &T) -> bool {
    *field == T::default()
}

/// Adds `<reading>_reason` to a schema; the JSON has it only where the reading is null.
pub(crate) fn describe_reason(schema: &mut Schema, reading: &str) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    let reason = json_schema!({
        "type": "string",
        "description": format!("Why `{reading}` is unknown; absent where it is known."),
        "pattern": "^(unsupported|denied|not-available|failed: .*)$",
    });
    properties.insert(format!("{reading}_reason"), reason.to_value());
    if let Some(Value::Object(field)) = properties.get_mut(reading) {
        let described = field.get("description").and_then(Value::as_str).map(|text| format!("{text} "));
        let description = format!("{}Null where it is unknown: see `{reading}_reason`.", described.unwrap_or_default());
        field.insert("description".to_owned(), description.into());
    }
}

/// A field's name, copied only where it is written with escapes.
#[derive(Deserialize)]
pub(crate) struct Name<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// The next value, its name in the error.
pub(crate) fn next<'de, T: Deserialize<'de>, A: MapAccess<'de>>(map: &mut A, field: &str) -> Result<T, A::Error> {
    map.next_value().map_err(|error| A::Error::custom(format!("{field}: {error}")))
}

/// A field that is not there reads as null.
pub(crate) fn missing<T: DeserializeOwned, E: Error>(field: &str) -> Result<T, E> {
    serde_json::from_value(Value::Null).map_err(|error| E::custom(format!("{field}: {error}")))
}

#[cfg(test)]
mod tests {
    use crate::gpu::{DeviceMemory, Reading};
    use crate::units::Bytes;

    #[test]
    fn a_missing_reading_is_null_with_its_reason_and_comes_back_as_it_was() {
        let memory = DeviceMemory {
            total_bytes: Reading::Known(Bytes::gib(24)),
            reserved_bytes: Reading::Unsupported,
            used_bytes: Reading::Failed("GPU is lost".into()),
            free_bytes: Reading::Denied,
        };
        let json = serde_json::to_string(&memory).unwrap();
        assert_eq!(
            json,
            r#"{"total_bytes":25769803776,"reserved_bytes":null,"reserved_bytes_reason":"unsupported","used_bytes":null,"used_bytes_reason":"failed: GPU is lost","free_bytes":null,"free_bytes_reason":"denied"}"#
        );
        assert_eq!(serde_json::from_str::<DeviceMemory>(&json).unwrap(), memory);
    }

    #[test]
    fn a_wrong_type_is_refused_by_field_name() {
        let error = serde_json::from_str::<DeviceMemory>(r#"{"total_bytes":"much"}"#).unwrap_err();
        assert!(error.to_string().contains("total_bytes"), "{error}");
    }
}
