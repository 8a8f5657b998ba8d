//! Owns how a struct with `Reading` fields becomes JSON: each reading is the value or `null`, and where it is null
//! `<field>_reason` stands beside it. A macro, because serde has no attribute that yields two fields from one.

/// Declares a struct of plain fields and `Reading` fields with the wire form of the contract.
/// Unknown fields are ignored when reading, so that the stream may grow.
macro_rules! readings {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            plain { $( $(#[$pmeta:meta])* $plain:ident : $ptype:ty, )* }
            readings { $( $(#[$rmeta:meta])* $reading:ident : $rtype:ty, )* }
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[$pmeta])* pub $plain: $ptype, )*
            $( $(#[$rmeta])* pub $reading: $crate::gpu::Reading<$rtype>, )*
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let mut map = serializer.serialize_map(None)?;
                $( map.serialize_entry(stringify!($plain), &self.$plain)?; )*
                $(
                    map.serialize_entry(stringify!($reading), &self.$reading.known())?;
                    if let Some(reason) = self.$reading.reason() {
                        map.serialize_entry(concat!(stringify!($reading), "_reason"), &reason)?;
                    }
                )*
                map.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[allow(unused_mut, reason = "a struct may have readings or plain fields only")]
                let mut map = serde_json::Map::deserialize(deserializer)?;
                $( let $plain = $crate::gpu::wire::take(&mut map, stringify!($plain))?; )*
                $(
                    let value = $crate::gpu::wire::take(&mut map, stringify!($reading))?;
                    let reason: Option<String> =
                        $crate::gpu::wire::take(&mut map, concat!(stringify!($reading), "_reason"))?;
                    let $reading = $crate::gpu::Reading::from_parts(value, reason.as_deref());
                )*
                Ok($name { $( $plain, )* $( $reading, )* })
            }
        }
    };
}
pub(crate) use readings;

/// Takes one field out of a JSON object; an absent one reads as null.
pub(crate) fn take<T, E>(map: &mut serde_json::Map<String, serde_json::Value>, field: &str) -> Result<T, E>
where
    T: serde::de::DeserializeOwned,
    E: serde::de::Error,
{
    let value = map.remove(field).unwrap_or(serde_json::Value::Null);
    serde_json::from_value(value).map_err(|error| E::custom(format!("{field}: {error}")))
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
