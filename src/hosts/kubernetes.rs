//! Owns what Kubernetes says of its nodes and pods: which commands ask for it, and what their JSON means.

use std::str::FromStr;

/// Names a pod; without a namespace, in the one of the context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodName {
    pub namespace: Option<String>,
    pub name: String,
}

impl FromStr for PodName {
    type Err = String;

    /// Fails if a part is not a name of Kubernetes.
    fn from_str(text: &str) -> Result<PodName, String> {
        let (namespace, name) = text.split_once('/').map_or((None, text), |(space, name)| (Some(space), name));
        let is_name = |name: &str| {
            let is_part = |character: char| character.is_ascii_alphanumeric() || "-.".contains(character);
            !name.is_empty() && !name.starts_with('-') && name.chars().all(is_part)
        };
        if !is_name(name) || !namespace.is_none_or(is_name) {
            return Err("give NAMESPACE/POD".to_owned());
        }
        Ok(PodName { namespace: namespace.map(str::to_owned), name: name.to_owned() })
    }
}
