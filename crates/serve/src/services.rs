//! The services that requests may be for: their messages, and the rules that lead to them.

use std::sync::{Arc, LazyLock};

use prost_reflect::{DescriptorPool, MethodDescriptor};
use trilane_grpc::{Schema, SchemaError};
use trilane_transcode::{Found, Router};

use crate::{Error, Upstream, library::DESCRIPTORS, rpc};

const HEALTH: &str = "grpc.health.v1.Health";

/// The library's, for all servers of this process.
static LIBRARY: LazyLock<Arc<Services>> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(DESCRIPTORS).expect("the build wrote it");
    let router = Router::new(&pool).expect("tests read the rules");
    Arc::new(Services {
        router,
        pool,
        root: Some("/v1/"),
        names: Vec::new(),
    })
});

/// What servers say about themselves.
static ABOUT: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(tonic_health::pb::FILE_DESCRIPTOR_SET).expect("the build wrote it")
});

/// The rules and the messages of services.
pub(crate) struct Services {
    router: Router,
    pool: DescriptorPool,
    /// What all paths of the rules begin with.
    root: Option<&'static str>,
    /// Full names of the services, where they are not all that the pool has.
    names: Vec<String>,
}

impl Services {
    /// The embedded library alone.
    pub(crate) fn library() -> Arc<Self> {
        LIBRARY.clone()
    }

    /// Those services of `schema` that `upstreams` have, each method by its rules and by the path that
    /// gRPC has for it.
    pub(crate) fn of(schema: &Schema, upstreams: &[Upstream]) -> Result<Arc<Self>, Error> {
        let names = upstreams.iter().flat_map(|upstream| &upstream.services);
        Self::named(schema, names.map(String::as_str))
    }

    fn named<'a>(
        schema: &Schema,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Arc<Self>, Error> {
        let pool = schema.pool();
        let services: Vec<_> = names
            .filter_map(|name| pool.get_service_by_name(name))
            .collect();
        let wrong = |error: trilane_transcode::RuleError| Error::Config(error.to_string());
        let mut router = Router::of_services(services.iter().cloned()).map_err(wrong)?;
        let methods = services
            .iter()
            .flat_map(|service| service.methods().collect::<Vec<_>>());
        router.add_implicit(methods).map_err(wrong)?;
        let names = services.iter().map(|service| service.full_name());
        let names = names.chain([HEALTH]).map(str::to_owned).collect();
        Ok(Arc::new(Self {
            router,
            pool: pool.clone(),
            root: None,
            names,
        }))
    }

    /// The embedded library and the services of `schema` that `upstreams` have.
    pub(crate) fn beside_library(
        schema: &Schema,
        upstreams: &[Upstream],
    ) -> Result<Arc<Self>, Error> {
        let theirs = upstreams.iter().flat_map(|upstream| &upstream.services);
        let theirs: Vec<String> = theirs.cloned().collect();
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
        let both = Schema::together(&[(&library, &own), (schema, &theirs)]).map_err(wrong)?;
        let names = theirs.iter().chain(&own).map(String::as_str);
        Self::named(&both, names)
    }

    pub(crate) fn router(&self) -> &Router {
        &self.router
    }

    pub(crate) fn pool(&self) -> &DescriptorPool {
        &self.pool
    }

    /// The method that gRPC has at a path, `/package.Service/Method`.
    pub(crate) fn method(&self, path: &str) -> Option<MethodDescriptor> {
        let (service, method) = path.strip_prefix('/')?.split_once('/')?;
        let pool = match service {
            HEALTH => &*ABOUT,
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

    /// Whether a path belongs to the rules, whatever the method of HTTP.
    pub(crate) fn know(&self, path: &str) -> bool {
        match self.root {
            // Cheap: every request to the embedded server comes by.
            Some(root) => path.starts_with(root),
            None => !matches!(self.router.find("", path), Found::Nothing),
        }
    }
}

/// Makes what takes long to make, before somebody asks for it.
pub(crate) fn prepare() {
    LazyLock::force(&LIBRARY);
}
