//! Owns what a process is recognized by (its name, its arguments and those of the processes above it), and reading a command
//! line: past the interpreter and its flags to what is really run, and to its options.

/// What a command line runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    /// The base name of the program, script or module (modules keep their dots); a title as it stands.
    pub name: String,
    /// The path of the program or script as it was given.
    pub path: String,
    /// How it is run.
    pub how: How,
    pub rest: Vec<String>,
}

/// How a program is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum How {
    #[default]
    Program,
    /// `python script.py`, which a console script such as `vllm` is as well.
    Script,
    Module,
    /// `python -c code`; the name is the code.
    Code,
}

impl Invocation {
    /// Reads arguments. Programs that overwrite them with one string (Chrome, setproctitle) are split at spaces.
    pub fn of(arguments: &[String]) -> Invocation {
        let mut words: Vec<String> = match arguments {
            [only] if only.contains(' ') => only.split_ascii_whitespace().map(str::to_owned).collect(),
            _ => arguments.to_vec(),
        };
        if words.is_empty() {
            return Invocation::default();
        }
        let program = words.remove(0);
        if is_python(base(&program)) {
            return python(words);
        }
        Invocation { name: base(&program).to_owned(), path: program, how: How::Program, rest: words }
    }

    /// The value of an option, `--name value` or `--name=value`; the first of `names` that is given.
    pub fn option(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| {
            self.rest.iter().enumerate().find_map(|(at, word)| {
                if word == name {
                    return self.rest.get(at + 1).map(String::as_str).filter(|value| !value.starts_with('-'));
                }
                word.strip_prefix(name)?.strip_prefix('=')
            })
        })
    }

    /// Whether a word is among what follows.
    pub fn has(&self, word: &str) -> bool {
        self.rest.iter().any(|given| given == word)
    }

    /// The word after another, unless it is an option: the model of `serve MODEL`.
    pub fn after(&self, word: &str) -> Option<&str> {
        let at = self.rest.iter().position(|given| given == word)?;
        self.rest.get(at + 1).map(String::as_str).filter(|next| !next.starts_with('-'))
    }

    /// Whether it is a module of this package, or a program of its name.
    pub fn is_of(&self, package: &str) -> bool {
        self.name == package || (self.how == How::Module && self.name.split('.').next() == Some(package))
    }

    /// What a Python program is when nothing better is known of it.
    pub fn python_label(&self) -> Option<String> {
        match self.how {
            How::Script => Some(format!("python {}", self.name)),
            How::Module => Some(format!("python -m {}", self.name)),
            How::Code => Some("python -c …".into()),
            How::Program => None,
        }
    }

    /// The first script among what follows: what a launcher launches.
    pub fn script(&self) -> Option<&str> {
        self.rest.iter().map(String::as_str).find(|word| word.ends_with(".py")).map(base)
    }
}

/// The part after the last slash.
pub fn base(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// `python`, `python3.12`, `pypy3`, `python3.11d`.
fn is_python(name: &str) -> bool {
    let rest = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || ".dt".contains(c)))
}

/// Past the interpreter's own flags to the module, code or script.
fn python(words: Vec<String>) -> Invocation {
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let how = match word.as_str() {
            "-m" => How::Module,
            "-c" => How::Code,
            "-W" | "-X" | "--check-hash-based-pycs" => {
                words.next();
                continue;
            }
            flag if flag.starts_with('-') => continue,
            script => {
                let (name, path) = (base(script).to_owned(), script.to_owned());
                return Invocation { name, path, how: How::Script, rest: words.collect() };
            }
        };
        let name = words.next().unwrap_or_default();
        return Invocation { path: name.clone(), name, how, rest: words.collect() };
    }
    Invocation { name: "python".into(), path: "python".into(), how: How::Program, rest: Vec::new() }
}

/// What is known of a process. Unknown parts are empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traits<'a> {
    /// The kernel's name of it, at most 15 bytes.
    pub comm: &'a str,
    /// Its arguments; a single one where it set its own title.
    pub arguments: &'a [String],
    pub working_directory: Option<&'a str>,
    /// The arguments of the processes above it, nearest first.
    pub ancestors: &'a [Vec<String>],
    /// JPY_SESSION_NAME: the notebook that a Jupyter kernel belongs to.
    pub notebook: Option<&'a str>,
}

impl Traits<'_> {
    /// The last part of the working directory, in lower case.
    pub(super) fn folder(&self) -> String {
        base(self.working_directory.unwrap_or_default()).to_ascii_lowercase()
    }

    /// The nearest process above that still has arguments of its own (titles wipe them).
    pub(super) fn parent(&self) -> Option<Invocation> {
        self.ancestors.iter().find(|arguments| arguments.len() > 1).map(|arguments| Invocation::of(arguments))
    }
}

/// `label (detail)`, or the label alone.
pub(super) fn with(label: &str, detail: Option<&str>) -> String {
    match detail.filter(|detail| !detail.is_empty()) {
        Some(detail) => format!("{label} ({detail})"),
        None => label.to_owned(),
    }
}
