//! The tree of all templates, by segment.
//!
//! A node stands at one depth, and a search visits it at most once: time is bounded by the number of
//! templates, whatever the path.

use std::collections::BTreeMap;

use crate::{
    path::{self, Slashes},
    rule::WEBSOCKET,
    template::{Segment, Template},
};

#[derive(Debug, Default)]
pub(crate) struct Node {
    literals: BTreeMap<Box<str>, Node>,
    any: Option<Box<Node>>,
    rest: Option<Box<Node>>,
    routes: Vec<Route>,
}

#[derive(Debug)]
struct Route {
    verb: Option<Box<str>>,
    /// HTTP method, or `*` for all.
    method: Box<str>,
    binding: usize,
}

/// What a search wants, and what it has seen.
#[derive(Debug)]
pub(crate) struct Search<'t, 'q> {
    method: &'q str,
    verb: Option<&'q str>,
    /// Methods of templates that match the path.
    pub(crate) allowed: Vec<&'t str>,
}

impl<'t, 'q> Search<'t, 'q> {
    pub(crate) fn new(method: &'q str) -> Self {
        Search {
            method,
            verb: None,
            allowed: Vec::new(),
        }
    }
}

impl Node {
    /// Adds a template; gives back the binding that is there already.
    pub(crate) fn insert(
        &mut self,
        method: &str,
        template: &Template,
        binding: usize,
    ) -> Result<(), usize> {
        let mut node = self;
        for segment in &template.segments {
            node = match segment {
                Segment::Literal(text) => node.literals.entry(text.clone()).or_default(),
                Segment::Any => node.any.get_or_insert_default(),
                Segment::Rest => node.rest.get_or_insert_default(),
            };
        }
        let same = |route: &&Route| route.verb == template.verb && *route.method == *method;
        if let Some(route) = node.routes.iter().find(same) {
            return Err(route.binding);
        }
        node.routes.push(Route {
            verb: template.verb.clone(),
            method: method.into(),
            binding,
        });
        Ok(())
    }

    /// What stands in this place; `None` where anything may.
    pub(crate) fn literals(&self) -> Option<Vec<&str>> {
        let is_open = self.any.is_some() || self.rest.is_some();
        (!is_open).then(|| self.literals.keys().map(AsRef::as_ref).collect())
    }

    /// The binding for `path` (without its first slash and the verb) and this verb.
    pub(crate) fn find<'t, 'q>(
        &'t self,
        path: &'q str,
        verb: Option<&'q str>,
        search: &mut Search<'t, 'q>,
    ) -> Option<usize> {
        search.verb = verb;
        self.descend(Some(path), search)
    }

    fn descend<'t>(&'t self, path: Option<&str>, search: &mut Search<'t, '_>) -> Option<usize> {
        let Some(path) = path else {
            let here = self.route(search);
            return here.or_else(|| self.rest.as_ref()?.route(search));
        };
        let (segment, next) = match path.split_once('/') {
            Some((segment, next)) => (segment, Some(next)),
            None => (path, None),
        };
        let literal = match self.literals.is_empty() {
            true => None,
            // A malformed escape equals no literal.
            false => path::decode(segment, Slashes::Decoded)
                .ok()
                .and_then(|text| self.literals.get(text.as_ref())),
        };
        literal
            .and_then(|node| node.descend(next, search))
            .or_else(|| self.any.as_ref()?.descend(next, search))
            .or_else(|| self.rest.as_ref()?.route(search))
    }

    fn route<'t>(&'t self, search: &mut Search<'t, '_>) -> Option<usize> {
        let here = || {
            let routes = self.routes.iter();
            routes.filter(|route| route.verb.as_deref() == search.verb)
        };
        let named = |name: &str| here().find(|route| *route.method == *name);
        let any = || named("*").filter(|_| search.method != WEBSOCKET);
        if let Some(route) = named(search.method).or_else(any) {
            return Some(route.binding);
        }
        let others: Vec<&str> = here().map(|route| &*route.method).collect();
        search.allowed.extend(others);
        None
    }
}
