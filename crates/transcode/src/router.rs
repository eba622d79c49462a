//! From a request line to a method, and from a request to its message.

use std::sync::Arc;

use prost::bytes::Bytes;
use prost_reflect::{
    DescriptorPool, DynamicMessage, Kind, MethodDescriptor, ServiceDescriptor, Value,
};

use crate::{
    binding::{Binding, Body},
    content,
    format::Format,
    path::{self, Slashes},
    problem::Problem,
    query, raw,
    rule::{self, RuleError, WEBSOCKET},
    service_config::ServiceConfig,
    template::Template,
    trie::{Node, Search},
    value,
};

/// All rules of a descriptor pool.
#[derive(Debug)]
pub struct Router {
    bindings: Vec<Arc<Binding>>,
    root: Node,
    has_verbs: bool,
    ignores_unknown_query: bool,
}

/// What stands under a path.
#[derive(Debug)]
pub enum Found<'r> {
    /// A method of gRPC.
    Match(Match),
    /// Methods, but not this one: the HTTP methods for `allow` with status 405. Without any, the path
    /// is one for WebSocket only.
    Method(Vec<&'r str>),
    /// Nothing: status 404.
    Nothing,
}

/// A request line that leads to a method.
#[derive(Debug)]
pub struct Match {
    /// The rule that matched.
    pub binding: Arc<Binding>,
    /// What the variables of the path hold, in their order.
    values: Result<Vec<String>, Problem>,
    ignores_unknown_query: bool,
}

impl Router {
    /// Reads the rules of every method of every service in `pool`, which has to know the options
    /// (`google.api.http` itself need not be in it). Methods without a rule are left out.
    ///
    /// # Errors
    /// [`RuleError`] for the first rule that is malformed or that matches the same requests as
    /// another; it names the methods and the templates.
    pub fn new(pool: &DescriptorPool) -> Result<Self, RuleError> {
        Router::of_services(pool.services())
    }

    /// As [`Router::new`], for these services.
    ///
    /// # Errors
    /// As [`Router::new`].
    pub fn of_services(
        services: impl IntoIterator<Item = ServiceDescriptor>,
    ) -> Result<Self, RuleError> {
        Router::configured(services, &ServiceConfig::default())
    }

    /// As [`Router::of_services`], but a method that a rule of `config` selects has this rule alone
    /// ("any transcoding specified in the service config will override any matching transcoding
    /// configuration in the proto").
    ///
    /// # Errors
    /// As [`Router::new`].
    pub fn configured(
        services: impl IntoIterator<Item = ServiceDescriptor>,
        config: &ServiceConfig,
    ) -> Result<Self, RuleError> {
        let mut router = Router {
            bindings: Vec::new(),
            root: Node::default(),
            has_verbs: false,
            ignores_unknown_query: false,
        };
        for service in services {
            for method in service.methods() {
                for (binding, template) in rule::bindings(&method, config)? {
                    router.add(binding, &template)?;
                }
            }
        }
        Ok(router)
    }

    /// Gives every method the binding `POST /package.Service/Method` with the message as content, beside
    /// those of its rules: what larking calls its implicit binding, and the path of Connect. A method whose
    /// option `idempotency_level` says that it changes nothing has `GET` too, with its fields in the query.
    ///
    /// # Errors
    /// [`RuleError`] where a rule has the same template already.
    pub fn add_implicit(
        &mut self,
        methods: impl IntoIterator<Item = MethodDescriptor>,
    ) -> Result<(), RuleError> {
        for method in methods {
            let (binding, template) = rule::implicit(&method)?;
            self.add(binding, &template)?;
            if !method.is_client_streaming() && rule::is_without_side_effects(&method) {
                let path = rule::grpc_path(&method);
                // A rule that has it goes first.
                let _ = self.add_unruled(&method, "GET", &path);
            }
        }
        Ok(())
    }

    /// Gives a method a binding without content beside those of its rules: `http_method`, or `WEBSOCKET`, of
    /// `path`.
    ///
    /// # Errors
    /// [`RuleError`] where the path is no template, or a rule has the same.
    pub fn add_unruled(
        &mut self,
        method: &MethodDescriptor,
        http_method: &str,
        path: &str,
    ) -> Result<(), RuleError> {
        let (binding, template) = rule::unruled(method, http_method, path)?;
        self.add(binding, &template)
    }

    /// Says whether query parameters that are no fields are ignored; they are refused otherwise.
    pub fn ignore_unknown_query(&mut self, ignore: bool) {
        self.ignores_unknown_query = ignore;
    }

    fn add(&mut self, binding: Binding, template: &Template) -> Result<(), RuleError> {
        let number = self.bindings.len();
        self.root
            .insert(binding.http_method(), template, number)
            .map_err(|old| RuleError::conflict(&binding, &self.bindings[old]))?;
        self.has_verbs |= template.verb.is_some();
        self.bindings.push(Arc::new(binding));
        Ok(())
    }

    /// All bindings, in the order of the methods.
    pub fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.bindings.iter().map(Arc::as_ref)
    }

    /// The first segments of all paths, decoded; `None` where a template begins with a wildcard.
    #[must_use]
    pub fn first_segments(&self) -> Option<Vec<&str>> {
        self.root.literals()
    }

    /// The method under `path`, which is still percent-encoded and without the query.
    ///
    /// A literal goes before `*`, and `*` before `**`, segment by segment from the left; a verb goes
    /// before a segment that holds a colon. For a WebSocket, `http_method` is `WEBSOCKET`, which `*`
    /// does not stand for; HTTP has no such method, and a request that says so must not come here. The
    /// time is bounded by the number of rules and the length of the path.
    pub fn find<'r>(&'r self, http_method: &str, path: &str) -> Found<'r> {
        let Some(path) = path.strip_prefix('/') else {
            return Found::Nothing;
        };
        let verb = match path.rsplit_once(':') {
            Some((before, verb)) if self.has_verbs && !verb.contains('/') => {
                path::decode(verb, Slashes::Decoded)
                    .ok()
                    .map(|verb| (before, verb))
            }
            _ => None,
        };
        let mut search = Search::new(http_method);
        if let Some((before, verb)) = &verb
            && let Some(number) = self.root.find(before, Some(verb), &mut search)
        {
            return self.matched(number, before);
        }
        // Where the verb is one, the colon is no part of a segment, whatever the method.
        if search.allowed.is_empty()
            && let Some(number) = self.root.find(path, None, &mut search)
        {
            return self.matched(number, path);
        }
        if search.allowed.is_empty() {
            return Found::Nothing;
        }
        let mut allowed = search.allowed;
        allowed.sort_unstable();
        allowed.dedup();
        allowed.retain(|&method| method != WEBSOCKET && method != "*");
        Found::Method(allowed)
    }

    fn matched(&self, number: usize, path: &str) -> Found<'_> {
        let binding = Arc::clone(&self.bindings[number]);
        let values = binding.parameters().iter().map(|parameter| {
            path::value(path, parameter)
                .map_err(|reason| Problem::invalid(format!("the path cannot be read: {reason}")))
        });
        let values = values.collect();
        Found::Match(Match {
            binding,
            values,
            ignores_unknown_query: self.ignores_unknown_query,
        })
    }
}

impl Match {
    /// The message of a request: first the content, then the path, then the query (without `?`).
    ///
    /// # Errors
    /// INVALID_ARGUMENT for content that is not what the rule maps, with the place in it; for content
    /// where the rule maps none; and for a query parameter that is no field, does not fit, or whose
    /// field is in the path or the content already.
    pub fn request(
        &self,
        query: Option<&str>,
        format: Format,
        content: &[u8],
    ) -> Result<DynamicMessage, Problem> {
        if matches!(self.binding.body(), Body::None) && !content.is_empty() {
            return Err(Problem::invalid(format!(
                "the content has to be empty, not {} bytes: the rule maps no body",
                content.len()
            )));
        }
        self.message(query, format, content)
    }

    /// One message of a stream of requests: as [`Match::request`], but a rule without `body`, as those
    /// for WebSocket are, takes the content as the whole message.
    ///
    /// # Errors
    /// As [`Match::request`].
    pub fn message(
        &self,
        query: Option<&str>,
        format: Format,
        content: &[u8],
    ) -> Result<DynamicMessage, Problem> {
        let input = self.binding.input();
        let mut message = match self.binding.body() {
            Body::None | Body::Whole => content::read(input, format, content)?,
            Body::Field(field) => {
                let mut message = DynamicMessage::new(input.clone());
                content::read_field(&mut message, field, format, content)?;
                message
            }
        };
        self.fill(&mut message, query)?;
        content::has_required(&message)?;
        Ok(message)
    }

    /// The message of a request whose content is taken as it is, where
    /// [`Binding::takes_raw`]: `content_type` and `data` are the `google.api.HttpBody`. In a stream of
    /// requests this is the first message.
    ///
    /// # Errors
    /// As [`Match::request`], but for the content, which is never wrong.
    pub fn raw(
        &self,
        query: Option<&str>,
        content_type: &str,
        data: Bytes,
    ) -> Result<DynamicMessage, Problem> {
        let mut message = self.around(content_type, data);
        self.fill(&mut message, query)?;
        Ok(message)
    }

    /// A further message of such a stream: `data` alone.
    #[must_use]
    pub fn raw_piece(&self, data: Bytes) -> DynamicMessage {
        self.around("", data)
    }

    /// The message with nothing but a `google.api.HttpBody`, which the rule maps the content to.
    fn around(&self, content_type: &str, data: Bytes) -> DynamicMessage {
        let input = self.binding.input();
        let Body::Field(field) = self.binding.body() else {
            return raw::message(input, content_type, data);
        };
        let mut message = DynamicMessage::new(input.clone());
        if let Kind::Message(inner) = field.kind() {
            let inner = raw::message(&inner, content_type, data);
            message.set_field(field, Value::Message(inner));
        }
        message
    }

    /// Sets what path and query hold.
    fn fill(&self, message: &mut DynamicMessage, query: Option<&str>) -> Result<(), Problem> {
        let values = self.values.as_ref().map_err(Clone::clone)?;
        for (parameter, text) in self.binding.parameters().iter().zip(values) {
            let problem = |reason: String| {
                let name = &parameter.variable.field_path;
                Problem::invalid(format!("the path's {name:?} {reason}"))
            };
            let leaf = &parameter.fields[parameter.fields.len() - 1];
            let value: Value = value::parse(leaf, text).map_err(problem)?;
            query::set(message, &parameter.fields, value).map_err(problem)?;
        }
        match query {
            Some(query) => query::apply(message, query, &self.binding, self.ignores_unknown_query),
            None => Ok(()),
        }
    }
}
