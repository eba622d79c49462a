//! Where types and methods come from.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message as _;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FileDescriptor, ReflectMessage, ServiceDescriptor,
};
use prost_types::FileDescriptorProto;
use protox::file::{ChainFileResolver, File, FileResolver, IncludeFileResolver};

use crate::{Method, editions, known, near, sound};

/// Why there is no schema, or no such method in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaError {
    /// A file cannot be read.
    Unreadable(String),
    /// What was read is no schema.
    Invalid(String),
    /// The schema has no such method.
    Unknown(String),
    /// A file is written in an edition, and only proto2 and proto3 are compiled here.
    Edition {
        /// Says so.
        text: String,
        /// Where imports of the files are looked for.
        roots: Vec<PathBuf>,
    },
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (SchemaError::Unreadable(text)
        | SchemaError::Invalid(text)
        | SchemaError::Unknown(text)
        | SchemaError::Edition { text, .. }) = self;
        f.write_str(text)
    }
}

impl std::error::Error for SchemaError {}

/// The types and methods of some files. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Schema {
    pool: DescriptorPool,
    /// Files by name as they came, where they came encoded: `prost-reflect` keeps of an edition what it knows.
    sources: Arc<HashMap<String, Vec<u8>>>,
    left_out: Arc<Vec<LeftOut>>,
}

/// A service that a [`Schema`] is without, though there is a description of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Full name.
    pub service: String,
    /// What is wrong with its description.
    pub reason: String,
}

/// `FileDescriptorSet` with its files unread, so that options of every kind are kept.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Set {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(crate) file: Vec<Vec<u8>>,
}

/// The part of `FileDescriptorProto` that says how files hang together.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Imports {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, repeated, tag = "3")]
    pub(crate) dependency: Vec<String>,
}

impl Schema {
    /// Compiles `.proto` files. Imports are looked for in `includes`, then in the folder that each
    /// file's package implies (`a/b` for `a/b/x/v1/y.proto` of package `x.v1`, else its own folder);
    /// `google/protobuf/*.proto`, and `http.proto`, `annotations.proto` and `httpbody.proto` of `google/api`,
    /// are known by themselves. Comments are kept.
    pub fn from_proto(files: &[PathBuf], includes: &[PathBuf]) -> Result<Self, SchemaError> {
        let mut resolver = ChainFileResolver::new();
        let mut roots: Vec<PathBuf> = includes.to_vec();
        let mut in_edition = None;
        for include in includes {
            if !trilane_files::is_dir(include) {
                let text = format!("{} is not a folder", include.display());
                return Err(SchemaError::Unreadable(text));
            }
        }
        for file in files {
            // A name may also be relative to one of the includes, as `protoc` takes it.
            let is_in = |include: &PathBuf| trilane_files::is_file(&include.join(file));
            if !includes.iter().any(is_in) || trilane_files::is_file(file) {
                let (root, text) = root(file)?;
                in_edition = in_edition.or(text);
                if !roots.contains(&root) {
                    roots.push(root);
                }
            }
        }
        if let Some(text) = in_edition {
            return Err(SchemaError::Edition { text, roots });
        }
        for root in &roots {
            resolver.add(Included::new(root.clone()));
        }
        known::add(&mut resolver);
        let mut compiler = protox::Compiler::with_file_resolver(resolver);
        compiler.include_imports(true).open_files(files).map_err(
            |error| match imported_in_edition(&error, &roots) {
                Some(text) => SchemaError::Edition {
                    text,
                    roots: roots.clone(),
                },
                None => SchemaError::Invalid(explain(&error)),
            },
        )?;
        Ok(Self {
            pool: compiler.descriptor_pool(),
            sources: Arc::default(),
            left_out: Arc::default(),
        })
    }

    /// Reads a `FileDescriptorSet`, as `protoc --include_imports -o`, `buf build -o` and `protox`
    /// write it. `name` names it in errors. Google's files may be missing. Services that cannot be read are left
    /// out where others can ([`Self::left_out`]).
    pub fn from_descriptor_set(name: &str, bytes: &[u8]) -> Result<Self, SchemaError> {
        let invalid = |reason: String| SchemaError::Invalid(format!("{name}: {reason}"));
        let set = Set::decode(bytes)
            .map_err(|error| invalid(format!("this is no FileDescriptorSet: {error}")))?;
        if set.file.is_empty() {
            return Err(invalid("this FileDescriptorSet has no files".into()));
        }
        Self::from_sound_files(set.file).map_err(invalid)
    }

    /// As [`Self::from_files`], without the services whose files are no schema, unless all are.
    pub(crate) fn from_sound_files(files: Vec<Vec<u8>>) -> Result<Self, String> {
        let reason = match Self::from_files(files.clone()) {
            Ok(schema) => return Ok(schema),
            Err(reason) => reason,
        };
        let files: HashMap<String, Vec<u8>> = files
            .into_iter()
            .filter_map(|bytes| Some((Imports::decode(&*bytes).ok()?.name, bytes)))
            .collect();
        let (mut kept, mut left_out) = (HashSet::new(), Vec::new());
        let mut names: Vec<&String> = files.keys().collect();
        names.sort_unstable();
        for name in names {
            let services = services_of(&files[name]);
            if services.is_empty() {
                continue;
            }
            let needed = needed(&files, name);
            let encoded = needed.iter().map(|name| files[*name].clone()).collect();
            match Self::from_files(encoded) {
                Ok(_) => kept.extend(needed),
                Err(reason) => left_out.extend(services.into_iter().map(|service| LeftOut {
                    service,
                    reason: reason.clone(),
                })),
            }
        }
        if kept.is_empty() {
            return Err(reason);
        }
        let kept = kept.into_iter().map(|name| files[name].clone()).collect();
        let mut schema = Self::from_files(kept).map_err(|_| reason)?;
        schema.left_out = Arc::new(left_out);
        Ok(schema)
    }

    /// Services that are described, but not so that they can be read.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// All files as a `FileDescriptorSet`, each as it came.
    pub fn descriptor_set(&self) -> Vec<u8> {
        let file = self.pool.files().map(|file| self.source(&file)).collect();
        Set { file }.encode_to_vec()
    }

    fn source(&self, file: &FileDescriptor) -> Vec<u8> {
        let source = self.sources.get(file.name()).cloned();
        source.unwrap_or_else(|| file.encode_to_vec())
    }

    /// Puts encoded `FileDescriptorProto`s together, in any order.
    pub(crate) fn from_files(files: Vec<Vec<u8>>) -> Result<Self, String> {
        let mut names = HashMap::new();
        let mut sources = HashMap::new();
        let mut set = Set::default();
        let mut more = files;
        while !more.is_empty() {
            for source in more.drain(..) {
                let bytes = editions::lower(source.clone())?;
                let file = FileDescriptorProto::decode(&*bytes).map_err(|error| {
                    format!("one of the files is no FileDescriptorProto: {error}")
                })?;
                let name = file.name().to_owned();
                if names.contains_key(&name) {
                    continue;
                }
                sound::check(&file).map_err(|reason| format!("{name}: {reason}"))?;
                // Options are read by this one: whatever else may be under its name, it is known.
                let known = (name == "google/protobuf/descriptor.proto")
                    .then(|| known::file(&name))
                    .flatten();
                sources.insert(name.clone(), source);
                names.insert(name, file.dependency);
                set.file.push(known.unwrap_or(bytes));
            }
            for (name, import) in missing(&names) {
                more.push(known::file(&import).ok_or_else(|| {
                    format!(
                        "{name} imports {import}, which is not there: \
                         make the set with its imports"
                    )
                })?);
            }
        }
        if let Some(name) = circle(&names) {
            return Err(format!("{name} imports itself"));
        }
        let pool = DescriptorPool::decode(&*set.encode_to_vec())
            .map_err(|error| one_line(&format!("{error:?}")))?;
        Ok(Self {
            pool,
            sources: Arc::new(sources),
            left_out: Arc::default(),
        })
    }

    /// Some services of several schemas, each with their full names, and the files that these need. A file
    /// that two schemas have is to be the same in both.
    pub fn together(parts: &[(&Self, &[String])]) -> Result<Self, SchemaError> {
        let mut files: HashMap<String, Vec<u8>> = HashMap::new();
        let mut order = Vec::new();
        for (name, bytes) in parts
            .iter()
            .flat_map(|(schema, names)| schema.files_of(names))
        {
            match files.get(&name) {
                None => {
                    files.insert(name.clone(), bytes);
                    order.push(name);
                }
                // Google's own are known, and differ between their editions in what nobody uses here.
                Some(known)
                    if *known == bytes
                        || known::file(&name).is_some()
                        || without_comments(known) == without_comments(&bytes) => {}
                Some(_) => {
                    return Err(SchemaError::Invalid(format!(
                        "there are two files {name}, which differ"
                    )));
                }
            }
        }
        let files = order.iter().filter_map(|name| files.remove(name)).collect();
        Self::from_files(files).map_err(SchemaError::Invalid)
    }

    /// The files that some services need, by name.
    fn files_of(&self, services: &[String]) -> Vec<(String, Vec<u8>)> {
        let services = services
            .iter()
            .filter_map(|name| self.pool.get_service_by_name(name));
        let mut files: Vec<FileDescriptor> = Vec::new();
        let mut more: Vec<_> = services.map(|service| service.parent_file()).collect();
        while let Some(file) = more.pop() {
            if !files.contains(&file) {
                more.extend(file.dependencies());
                files.push(file);
            }
        }
        let encoded = |file: &FileDescriptor| (file.name().to_owned(), self.source(file));
        files.iter().map(encoded).collect()
    }

    /// The descriptors.
    pub fn pool(&self) -> &DescriptorPool {
        &self.pool
    }

    /// Finds a method by `pkg.Service/Method` or `pkg.Service.Method`. The error names what there is.
    pub fn method(&self, name: &str) -> Result<Method, SchemaError> {
        let name = name.strip_prefix('/').unwrap_or(name);
        let (service, method) = match name.rsplit_once(['/', '.']) {
            Some((service, method)) => (service, method),
            None => ("", name),
        };
        if let Some(left_out) = self.left_out.iter().find(|known| known.service == service) {
            let LeftOut { service, reason } = left_out;
            let text = format!("the description of {service} cannot be read: {reason}");
            return Err(SchemaError::Invalid(text));
        }
        let Some(found) = self.pool.get_service_by_name(service) else {
            return Err(SchemaError::Unknown(self.no_service(service, method)));
        };
        match found.methods().find(|known| known.name() == method) {
            Some(descriptor) => Ok(Method::new(descriptor)),
            // Without a method, `a.Service` reads as the method `Service` of `a`.
            None => Err(SchemaError::Unknown(no_method(&found, method))),
        }
    }

    fn no_service(&self, service: &str, method: &str) -> String {
        let whole = match service {
            "" => method.to_owned(),
            _ => format!("{service}.{method}"),
        };
        if let Some(found) = self.pool.get_service_by_name(&whole) {
            return format!(
                "{whole} is a service: name one of its methods, {}",
                methods(&found, "")
            );
        }
        let services: Vec<_> = self.pool.services().collect();
        if services.is_empty() {
            return format!("there is no service {service:?}, nor any other in the schema");
        }
        let names = services.iter().map(ServiceDescriptor::full_name);
        if service.is_empty() {
            let example = services.iter().find_map(|service| {
                let method = service.methods().find(|known| known.name() == method)?;
                Some(format!("type {}/{}", service.full_name(), method.name()))
            });
            let example = example
                .unwrap_or_else(|| format!("the services are {}", near::list(method, names)));
            return format!("{method:?} does not name a service and a method: {example}");
        }
        format!(
            "there is no service {service:?}: the schema has {}",
            near::list(service, names)
        )
    }
}

/// The full names of the services of an encoded file.
fn services_of(file: &[u8]) -> Vec<String> {
    let file = FileDescriptorProto::decode(file).unwrap_or_default();
    let full = |name: &str| match file.package() {
        "" => name.to_owned(),
        package => format!("{package}.{name}"),
    };
    file.service
        .iter()
        .map(|service| full(service.name()))
        .collect()
}

/// The names of the files that are there and that a file needs, itself among them.
fn needed<'a>(files: &'a HashMap<String, Vec<u8>>, name: &'a str) -> HashSet<&'a str> {
    let mut all = HashSet::new();
    let mut more = vec![name.to_owned()];
    while let Some(name) = more.pop() {
        if let Some((name, bytes)) = files.get_key_value(&name)
            && all.insert(name.as_str())
        {
            more.extend(Imports::decode(&**bytes).unwrap_or_default().dependency);
        }
    }
    all
}

/// An encoded file without its comments, which some servers keep and others do not.
fn without_comments(file: &[u8]) -> Option<Vec<u8>> {
    let descriptor = FileDescriptorProto::default().descriptor();
    let mut message = DynamicMessage::decode(descriptor, file).ok()?;
    message.clear_field_by_name("source_code_info");
    Some(message.encode_to_vec())
}

fn no_method(service: &ServiceDescriptor, method: &str) -> String {
    let name = service.full_name();
    if service.methods().len() == 0 {
        return format!("service {name} has no methods");
    }
    format!(
        "service {name} has no method {method:?}: it has {}",
        methods(service, method)
    )
}

fn methods(service: &ServiceDescriptor, wanted: &str) -> String {
    let methods: Vec<_> = service.methods().collect();
    near::list(wanted, methods.iter().map(|method| method.name()))
}

/// Imports that no file satisfies, with the file that has them.
fn missing(names: &HashMap<String, Vec<String>>) -> Vec<(String, String)> {
    let imports = names
        .iter()
        .flat_map(|(name, imports)| imports.iter().map(move |import| (name, import)));
    imports
        .filter(|(_, import)| !names.contains_key(*import))
        .map(|(name, import)| (name.clone(), import.clone()))
        .collect()
}

/// A file that imports itself over others, if there is one.
fn circle(names: &HashMap<String, Vec<String>>) -> Option<&str> {
    let mut waiting: HashMap<&str, usize> = HashMap::new();
    let mut importers: HashMap<&str, Vec<&str>> = HashMap::new();
    for (name, imports) in names {
        let distinct: HashSet<_> = imports.iter().map(String::as_str).collect();
        waiting.insert(name, distinct.len());
        for import in distinct {
            importers.entry(import).or_default().push(name);
        }
    }
    let mut free: Vec<_> = waiting
        .iter()
        .filter(|(_, count)| **count == 0)
        .map(|(name, _)| *name)
        .collect();
    while let Some(name) = free.pop() {
        waiting.remove(name);
        for importer in importers.remove(name).unwrap_or_default() {
            if let Some(count) = waiting.get_mut(importer) {
                *count -= 1;
                if *count == 0 {
                    free.push(importer);
                }
            }
        }
    }
    waiting.keys().min().copied()
}

/// The files below a folder, by their names relative to it, which may be copies of those of another machine.
struct Included {
    folder: PathBuf,
    files: IncludeFileResolver,
}

impl Included {
    fn new(folder: PathBuf) -> Self {
        Self {
            files: IncludeFileResolver::new(folder.clone()),
            folder,
        }
    }
}

impl FileResolver for Included {
    fn resolve_path(&self, path: &Path) -> Option<String> {
        self.files.resolve_path(path)
    }

    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let path = self.folder.join(name);
        if trilane_files::are_copies() {
            let text = trilane_files::read_to_string(&path)
                .map_err(|_| protox::Error::file_not_found(name))?;
            return File::from_source(name, &text);
        }
        let file = self.files.open_file(name)?;
        trilane_files::note(&path);
        Ok(file)
    }
}

/// The folder that the imports of a file are relative to, by its package; and what there is to say of a file in an
/// edition.
fn root(file: &Path) -> Result<(PathBuf, Option<String>), SchemaError> {
    let text = trilane_files::read_to_string(file).map_err(|error| {
        SchemaError::Unreadable(format!("cannot read {}: {error}", file.display()))
    })?;
    let name = file.display().to_string();
    let (package, in_edition) = match (File::from_source(&name, &text), edition(&text)) {
        (Ok(parsed), _) => (parsed.file_descriptor_proto().package().to_owned(), None),
        (Err(_), Some(edition)) => (package(&text), Some(not_compiled(&name, edition))),
        (Err(error), None) => return Err(SchemaError::Invalid(explain(&error))),
    };
    let own = match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut root = own;
    for part in package.split('.').rev() {
        match (root.file_name(), root.parent()) {
            (Some(folder), Some(parent)) if folder == part => root = parent,
            _ => return Ok((own.to_owned(), in_edition)),
        }
    }
    let root = if root == Path::new("") {
        PathBuf::from(".")
    } else {
        root.to_owned()
    };
    Ok((root, in_edition))
}

/// The files that are known without a folder beside Google's own, and what they import: a `FileDescriptorSet`.
pub fn known_files() -> Vec<u8> {
    let file = known::all();
    Set { file }.encode_to_vec()
}

fn not_compiled(name: &str, edition: &str) -> String {
    format!(
        "{name} is written in edition {edition}, and only proto2 and proto3 are compiled here: install protoc, which is used for the others, give a descriptor set (--descriptor-set, as protoc --include_imports -o FILE or buf build -o FILE makes it), or let the server tell by reflection"
    )
}

/// What there is to say where the file that an error is about is written in an edition.
fn imported_in_edition(error: &protox::Error, roots: &[PathBuf]) -> Option<String> {
    let name = error.file()?;
    let text = roots
        .iter()
        .find_map(|root| trilane_files::read_to_string(&root.join(name)).ok())?;
    edition(&text).map(|edition| not_compiled(name, edition))
}

/// The package of a file, by the statement that says it.
fn package(text: &str) -> String {
    let statement = text.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix("package")?;
        rest.starts_with(char::is_whitespace).then_some(rest)
    });
    let name = statement.and_then(|rest| rest.split(';').next());
    name.unwrap_or_default().trim().to_owned()
}

/// The edition that a file is written in, where it says one instead of a syntax: its first statement.
fn edition(text: &str) -> Option<&str> {
    let mut rest = text.trim_start();
    loop {
        rest = if let Some(comment) = rest.strip_prefix("//") {
            comment.split_once('\n')?.1
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/")?.1
        } else {
            break;
        }
        .trim_start();
    }
    let rest = rest.strip_prefix("edition")?.trim_start();
    let rest = rest.strip_prefix('=')?.trim_start();
    let rest = rest.strip_prefix(['"', '\''])?;
    Some(rest.split(['"', '\'']).next()?.trim())
}

/// An error of the compiler in one line, with file, line and column where they are known.
fn explain(error: &protox::Error) -> String {
    let text = one_line(&format!("{error:?}"));
    if error.is_file_not_found() {
        return format!("{text}: name the folder that imports are relative to with --proto-path");
    }
    text
}

fn one_line(text: &str) -> String {
    text.split(|char: char| char.is_whitespace() || char.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests;
