//! The services that requests may be for: their messages, the rules that lead to them, and which paths
//! are theirs.

use std::{
    collections::HashSet,
    sync::{Arc, LazyLock, OnceLock},
};

use bytes::Bytes;
use prost_reflect::{DescriptorPool, MethodDescriptor, ServiceDescriptor};
use trilane_grpc::{Schema, SchemaError};
use trilane_transcode::{Found, Info, Router, RuleError, ServiceConfig, openapi};

use crate::{Error, Forwarding, app, library::DESCRIPTORS, rest::twirp, rpc};

const HEALTH: &str = "grpc.health.v1.Health";
/// Where the health is asked for without gRPC: as larking, and many others, have it.
const HEALTH_PATH: &str = "/v1/healthz";
/// Services that have no rules: they are called by gRPC and its kin.
const ABOUT: [&str; 2] = [
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

/// The library's, for all servers of this process.
static LIBRARY: LazyLock<Arc<Services>> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(DESCRIPTORS).expect("the build wrote it");
    let services: Vec<_> = pool.services().collect();
    let mut router = Router::of_services(services.iter().cloned()).expect("tests read the rules");
    add_implicit(&mut router, &services).expect("no rule has such a path");
    add_health(&mut router);
    let title = "The library of trilane serve".to_owned();
    Arc::new(Services::new(
        router,
        pool,
        DESCRIPTORS.to_vec(),
        Vec::new(),
        title,
    ))
});

/// How servers say how they fare.
static HEALTH_POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(tonic_health::pb::FILE_DESCRIPTOR_SET).expect("the build wrote it")
});

/// What reflection itself is: both of its versions.
static REFLECTION_POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let mut pool = DescriptorPool::new();
    for version in [
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ] {
        pool.decode_file_descriptor_set(version)
            .expect("the build wrote it");
    }
    pool
});

/// The rules and the messages of services.
pub(crate) struct Services {
    router: Router,
    pool: DescriptorPool,
    /// What `pool` was made of, as it came: a `FileDescriptorSet`.
    described: Vec<u8>,
    /// Full names of the services, where they are not all that the pool has.
    names: Vec<String>,
    /// First segments of paths, and who answers there.
    heads: Vec<(Box<str>, Owner)>,
    /// Whether a rule may match a path that begins with anything.
    any_head: bool,
    /// Whether a method may stream `google.api.HttpBody` in both directions.
    has_duplex: bool,
    title: String,
    description: OnceLock<Bytes>,
}

/// Who answers a request, by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The services: over gRPC, and by their rules where a request is no call.
    Services,
    /// The services over gRPC alone.
    Calls,
    /// Nobody here.
    Others,
}

impl Services {
    /// The embedded library alone.
    pub(crate) fn library() -> Arc<Self> {
        LIBRARY.clone()
    }

    /// The services that `forwarding` asks for, each method by its rules and by the path that gRPC has for
    /// it; with those of the embedded server, unless they stand alone.
    pub(crate) fn of(forwarding: &Forwarding) -> Result<Arc<Self>, Error> {
        let theirs = forwarding
            .upstreams
            .iter()
            .flat_map(|upstream| &upstream.services);
        let mut seen = HashSet::new();
        // Several upstreams may have one.
        let theirs = theirs.filter(|name| seen.insert(name.as_str()));
        let theirs: Vec<String> = theirs.cloned().collect();
        match forwarding.alone {
            true => Self::named(&forwarding.schema, &theirs, forwarding),
            false => Self::beside_library(&theirs, forwarding),
        }
    }

    fn beside_library(theirs: &[String], forwarding: &Forwarding) -> Result<Arc<Self>, Error> {
        let own = [rpc::LIBRARY.to_owned()];
        if theirs.contains(&own[0]) {
            return Err(Error::Config(format!(
                "{} is a service of this server already: type trilane gateway to serve the upstream's",
                rpc::LIBRARY
            )));
        }
        let wrong =
            |error: SchemaError| Error::Config(format!("beside the embedded library: {error}"));
        let library = Schema::from_descriptor_set("library.proto", DESCRIPTORS).map_err(wrong)?;
        let parts = [(&library, &own[..]), (&forwarding.schema, theirs)];
        let both = Schema::together(&parts).map_err(wrong)?;
        Self::named(&both, &[theirs, &own[..]].concat(), forwarding)
    }

    fn named(
        schema: &Schema,
        names: &[String],
        forwarding: &Forwarding,
    ) -> Result<Arc<Self>, Error> {
        let pool = schema.pool();
        let services: Vec<_> = names
            .iter()
            .filter_map(|name| pool.get_service_by_name(name))
            .collect();
        let config = &forwarding.config;
        let wrong = |error: RuleError| Error::Config(error.to_string());
        config.check(pool).map_err(wrong)?;
        let mut router = Router::configured(services.iter().cloned(), config).map_err(wrong)?;
        add_implicit(&mut router, &services).map_err(wrong)?;
        add_health(&mut router);
        router.ignore_unknown_query(forwarding.ignore_unknown_query);
        let names: Vec<String> = services
            .iter()
            .map(|service| service.full_name().to_owned())
            .collect();
        let title = title(config, &names);
        let names = names.into_iter().chain([HEALTH.to_owned()]).collect();
        let described = schema.descriptor_set();
        Ok(Arc::new(Self::new(
            router,
            pool.clone(),
            described,
            names,
            title,
        )))
    }

    fn new(
        router: Router,
        pool: DescriptorPool,
        described: Vec<u8>,
        names: Vec<String>,
        title: String,
    ) -> Self {
        let first = router.first_segments();
        let any_head = first.is_none();
        let heads = first.into_iter().flatten();
        let heads = heads.map(|head| (head.into(), Owner::Services));
        let about = ABOUT.map(|name| (name.into(), Owner::Calls));
        let is_duplex =
            |method: MethodDescriptor| method.is_client_streaming() && method.is_server_streaming();
        let has_duplex = pool.get_message_by_name("google.api.HttpBody").is_some()
            && pool
                .services()
                .any(|service| service.methods().any(is_duplex));
        Self {
            has_duplex,
            heads: heads.chain(about).collect(),
            any_head,
            router,
            pool,
            described,
            names,
            title,
            description: OnceLock::new(),
        }
    }

    pub(crate) fn router(&self) -> &Router {
        &self.router
    }

    /// Whether a method may stream `google.api.HttpBody` in both directions: where none does, none is looked for.
    pub(crate) fn has_duplex(&self) -> bool {
        self.has_duplex
    }

    pub(crate) fn pool(&self) -> &DescriptorPool {
        &self.pool
    }

    /// The files of all services, as they came: a `FileDescriptorSet`.
    pub(crate) fn described(&self) -> &[u8] {
        &self.described
    }

    /// The method that gRPC has at a path, `/package.Service/Method`.
    pub(crate) fn method(&self, path: &str) -> Option<MethodDescriptor> {
        let (service, method) = path.strip_prefix('/')?.split_once('/')?;
        let pool = match service {
            HEALTH => &*HEALTH_POOL,
            name if ABOUT.contains(&name) => &*REFLECTION_POOL,
            _ if self.names.is_empty() || self.names.iter().any(|name| name == service) => {
                &self.pool
            }
            _ => return None,
        };
        let service = pool.get_service_by_name(service)?;
        service.methods().find(|found| found.name() == method)
    }

    /// Full names of the services, with that of health; none where they are all that the pool has.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Who answers under a path, whatever the method of HTTP. A first segment that rules have is the
    /// services', unless it is one of the embedded server's pages too.
    pub(crate) fn owner(&self, path: &str) -> Owner {
        // Cheap: every request to the embedded server comes by.
        if path.starts_with(twirp::PREFIX) {
            return Owner::Services;
        }
        let rest = path.strip_prefix('/').unwrap_or(path);
        let first = match rest.split_once('/') {
            Some((first, _)) => first,
            None => rest,
        };
        let head = self.heads.iter().find(|(head, _)| **head == *first);
        let is_certain = |first| !self.any_head && !app::is_page(first);
        match head {
            Some((_, Owner::Services)) if is_certain(first) => Owner::Services,
            Some((_, Owner::Calls)) => Owner::Calls,
            // Other spellings of a segment, or a verb behind it, are the router's to read.
            None if !self.any_head && !first.contains(['%', ':']) => Owner::Others,
            _ => match self.router.find("", path) {
                Found::Nothing => Owner::Others,
                _ => Owner::Services,
            },
        }
    }

    /// The description of what the rules serve, in OpenAPI 3.1 (JSON). Made when it is first asked for.
    pub(crate) fn description(&self) -> Bytes {
        let made = self.description.get_or_init(|| {
            let info = Info {
                title: &self.title,
                version: env!("CARGO_PKG_VERSION"),
            };
            openapi(&self.router, &info).to_string().into()
        });
        made.clone()
    }
}

fn add_implicit(router: &mut Router, services: &[ServiceDescriptor]) -> Result<(), RuleError> {
    let methods = services.iter().flat_map(ServiceDescriptor::methods);
    router.add_implicit(methods)
}

/// Has the health told over HTTP too: by `GET`, and for as long as it changes over WebSocket. Rules go first.
fn add_health(router: &mut Router) {
    let Some(health) = HEALTH_POOL.get_service_by_name(HEALTH) else {
        return;
    };
    let is_taken = !matches!(router.find("GET", HEALTH_PATH), Found::Nothing);
    for method in health.methods() {
        // A rule that leads to this very service has its own paths.
        let _ = router.add_implicit([method.clone()]);
        let kind = match method.is_server_streaming() {
            true => "WEBSOCKET",
            false => "GET",
        };
        if !is_taken {
            let _ = router.add_unruled(&method, kind, HEALTH_PATH);
        }
        if kind == "GET" {
            let path = format!("/{HEALTH}/{}", method.name());
            let _ = router.add_unruled(&method, kind, &path);
        }
    }
}

fn title(config: &ServiceConfig, names: &[String]) -> String {
    match config.title() {
        Some(title) => title.to_owned(),
        None => names.join(", "),
    }
}

/// Makes what takes long to make, before somebody asks for it.
pub(crate) fn prepare() {
    LazyLock::force(&LIBRARY);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_owners() {
        let services = Services::library();
        for (path, owner) in [
            ("/", Owner::Others),
            ("/hello", Owner::Others),
            ("/books", Owner::Others),
            ("/v1", Owner::Services),
            ("/v1/nothing", Owner::Services),
            ("/v1/shelves/1/books/1", Owner::Services),
            ("/%76%31/shelves/1/books/1", Owner::Services),
            ("/%76%31/nothing", Owner::Others),
            ("/v1:x", Owner::Others),
            ("/v11/shelves/1/books/1", Owner::Others),
            ("/trilane.library.v1.Library/GetBook", Owner::Services),
            ("/trilane.library.v1.Library", Owner::Services),
            ("/trilane.library.v1.Librarian/GetBook", Owner::Others),
            ("/grpc.health.v1.Health/Check", Owner::Services),
            (
                "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                Owner::Calls,
            ),
            ("/twirp/trilane.library.v1.Library/GetBook", Owner::Services),
            ("/twirp", Owner::Others),
            ("*", Owner::Others),
        ] {
            assert_eq!(services.owner(path), owner, "{path}");
        }
    }

    #[test]
    fn pages_keep_their_paths_beside_rules() {
        let proto = r#"
            syntax = "proto3"; package t;
            import "google/api/annotations.proto";
            message M { string text = 1; }
            service S {
              rpc Book(M) returns (M) { option (google.api.http) = {get: "/books/{text}"}; }
              rpc Any(M) returns (M) { option (google.api.http) = {get: "/{text}/any"}; }
            }"#;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("t.proto");
        std::fs::write(&file, proto).unwrap();
        let forwarding = Forwarding {
            schema: Schema::from_proto(&[file], &[]).unwrap(),
            upstreams: vec![crate::Upstream {
                place: crate::Place::Unix("/nowhere".into()),
                tls: None,
                name: None,
                services: vec!["t.S".into()],
            }],
            limits: crate::Limits::default(),
            ended: None,
            alone: false,
            config: ServiceConfig::default(),
            ignore_unknown_query: false,
        };
        let services = Services::of(&forwarding).unwrap();
        for (path, owner) in [
            ("/books", Owner::Others),
            ("/books/1", Owner::Services),
            ("/hello", Owner::Others),
            ("/hello/any", Owner::Services),
            ("/t.S/Book", Owner::Services),
            ("/v1/shelves/1/books/1", Owner::Services),
        ] {
            assert_eq!(services.owner(path), owner, "{path}");
        }
    }
}
