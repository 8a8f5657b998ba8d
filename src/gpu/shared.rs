//! Owns lists whose items several readings share. Of many processes hardly any differs from one reading to the next: to copy
//! such a list costs a count for each item, and whether two items are the same is mostly seen at once.

use std::borrow::Cow;
use std::iter::Map;
use std::slice;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};

/// A list with items that other lists may share.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Vec<T>", bound = "T: Deserialize<'de>")]
pub struct Shared<T>(Vec<Arc<T>>);

type Iter<'a, T> = Map<slice::Iter<'a, Arc<T>>, fn(&Arc<T>) -> &T>;
type IterMut<'a, T> = Map<slice::IterMut<'a, Arc<T>>, fn(&mut Arc<T>) -> &mut T>;

impl<T> Default for Shared<T> {
    fn default() -> Shared<T> {
        Shared(Vec::new())
    }
}

impl<T> Shared<T> {
    pub fn iter(&self) -> Iter<'_, T> {
        self.0.iter().map(Arc::as_ref)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, at: usize) -> Option<&T> {
        self.0.get(at).map(Arc::as_ref)
    }

    pub fn push(&mut self, row: impl Into<Arc<T>>) {
        self.0.push(row.into());
    }

    pub fn retain(&mut self, keeps: impl Fn(&T) -> bool) {
        self.0.retain(|row| keeps(row));
    }

    pub fn sort_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
        self.0.sort_by_key(|row| key(row));
    }

    /// The items as other lists may share them.
    pub fn shared(&self) -> &[Arc<T>] {
        &self.0
    }

    /// The same to change some of them; `Arc::make_mut` copies one that another list shares.
    pub fn shared_mut(&mut self) -> &mut [Arc<T>] {
        &mut self.0
    }
}

impl<T: Clone> Shared<T> {
    /// All items to be changed: one that another list shares is copied first.
    pub fn iter_mut(&mut self) -> IterMut<'_, T> {
        self.0.iter_mut().map(Arc::make_mut)
    }
}

/// Whether two are equal.
pub(crate) fn are_same<T: PartialEq>(one: &Arc<T>, other: &Arc<T>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Shared<T>) -> bool {
        self.len() == other.len() && self.0.iter().zip(&other.0).all(|(one, other)| are_same(one, other))
    }
}

impl<'a, T> IntoIterator for &'a Shared<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<'a, T: Clone> IntoIterator for &'a mut Shared<T> {
    type Item = &'a mut T;
    type IntoIter = IterMut<'a, T>;

    fn into_iter(self) -> IterMut<'a, T> {
        self.iter_mut()
    }
}

impl<T> FromIterator<Arc<T>> for Shared<T> {
    fn from_iter<I: IntoIterator<Item = Arc<T>>>(rows: I) -> Shared<T> {
        Shared(rows.into_iter().collect())
    }
}

impl<T> FromIterator<T> for Shared<T> {
    fn from_iter<I: IntoIterator<Item = T>>(rows: I) -> Shared<T> {
        rows.into_iter().map(Arc::new).collect()
    }
}

impl<T> From<Vec<T>> for Shared<T> {
    fn from(rows: Vec<T>) -> Shared<T> {
        rows.into_iter().collect()
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

impl<T: JsonSchema> JsonSchema for Shared<T> {
    fn schema_name() -> Cow<'static, str> {
        Vec::<T>::schema_name()
    }

    fn inline_schema() -> bool {
        Vec::<T>::inline_schema()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<T>::json_schema(generator)
    }
}

#[cfg(test)]
impl<T> std::ops::Index<usize> for Shared<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        &self.0[at]
    }
}

#[cfg(test)]
impl<T: Clone> std::ops::IndexMut<usize> for Shared<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        Arc::make_mut(&mut self.0[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn an_item_is_shared_until_one_of_the_lists_changes_it() {
        let before: Shared<u32> = vec![7, 8].into();
        let mut now = before.clone();
        *Arc::make_mut(&mut now.shared_mut()[1]) = 9;
        let are_shared: Vec<bool> =
            before.shared().iter().zip(now.shared()).map(|(one, other)| Arc::ptr_eq(one, other)).collect();
        assert_eq!(are_shared, [true, false]);
        now.iter_mut().for_each(|item| *item += 10);
        assert_eq!(before.iter().chain(&now).copied().collect::<Vec<_>>(), [7, 8, 17, 19]);
    }
}
