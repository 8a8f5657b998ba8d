//! Owns making small GGUF files in memory for tests, right ones and broken ones.

use crate::memory::ggml::GgmlType;

/// A file in the making.
#[derive(Clone, Debug, Default)]
pub(crate) struct Builder {
    keys: Vec<u8>,
    key_count: u64,
    tensors: Vec<(String, Vec<u64>, GgmlType)>,
}

fn text(value: &str) -> Vec<u8> {
    let mut bytes = (value.len() as u64).to_le_bytes().to_vec();
    bytes.extend(value.as_bytes());
    bytes
}

impl Builder {
    /// A key with the type and the bytes of its value as they are to stand in the file.
    pub(crate) fn raw(mut self, key: &str, kind: u32, value: &[u8]) -> Builder {
        self.keys.extend(text(key));
        self.keys.extend(kind.to_le_bytes());
        self.keys.extend(value);
        self.key_count += 1;
        self
    }

    /// A number of four bytes.
    pub(crate) fn number(self, key: &str, value: u32) -> Builder {
        self.raw(key, 4, &value.to_le_bytes())
    }

    pub(crate) fn text(self, key: &str, value: &str) -> Builder {
        self.raw(key, 8, &text(value))
    }

    /// A list of numbers of four bytes.
    pub(crate) fn list(self, key: &str, values: &[u32]) -> Builder {
        let mut bytes = 4_u32.to_le_bytes().to_vec();
        bytes.extend((values.len() as u64).to_le_bytes());
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        self.raw(key, 9, &bytes)
    }

    /// A tensor; its data follows the one before.
    pub(crate) fn tensor(mut self, name: &str, dims: &[u64], kind: GgmlType) -> Builder {
        self.tensors.push((name.to_owned(), dims.to_vec(), kind));
        self
    }

    /// The header, and how long the whole file would be.
    pub(crate) fn header(&self) -> (Vec<u8>, u64) {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend(self.key_count.to_le_bytes());
        bytes.extend(&self.keys);
        let mut offset = 0_u64;
        for (name, dims, kind) in &self.tensors {
            bytes.extend(text(name));
            bytes.extend(u32::try_from(dims.len()).unwrap().to_le_bytes());
            bytes.extend(dims.iter().flat_map(|dim| dim.to_le_bytes()));
            bytes.extend(kind.id.to_le_bytes());
            bytes.extend(offset.to_le_bytes());
            offset += kind.tensor_bytes(dims).unwrap_or(0).next_multiple_of(32);
        }
        let length = (bytes.len() as u64).next_multiple_of(32) + offset;
        (bytes, length)
    }
}
