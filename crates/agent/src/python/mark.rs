//! `Mark`: a request as Python code sees it, and what a server tells about it.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use super::current::current;
use super::moments::request_ended;
use crate::lifecycle::agent::Agent;
use crate::sense::arrivals::{Arrival, ArrivalSource, queued, trace_id};
use crate::sense::hooks::{Hooks, Open};
use crate::sense::routes::{NO_ROUTE, RouteId};
use crate::sys::locks::lock;
use crate::sys::native::unix_ns;

/// A request or a training step: it begins with the object and ends with `end()`, at the latest when it is freed.
#[pyclass(frozen, module = "neurogc._agent")]
pub(crate) struct Mark {
    open: Open,
    agent: Option<Arc<Agent>>,
    ended: AtomicBool,
    route: AtomicU8,
    peer: Option<SocketAddr>,
    /// The scope of an ASGI request, which says at its end what its route was. It is let go of at the end, so that a cycle
    /// through it does not outlive the request.
    scope: Mutex<Option<Py<PyDict>>>,
}

#[pymethods]
impl Mark {
    /// Something that the program marks by hand, perhaps with a name.
    #[new]
    #[pyo3(signature = (name=None))]
    fn new(name: Option<&Bound<'_, PyAny>>) -> Self {
        let agent = current();
        let route = name.and_then(|name| {
            let agent = agent.as_ref()?;
            Some(agent.sensors.hooks.routes.named(name.cast::<PyString>().ok()?.to_str().ok()?))
        });
        Self::begin(agent, (Arrival::default(), None), route.unwrap_or_default(), None)
    }

    /// A request that an ASGI server hands to its application.
    #[staticmethod]
    fn asgi(scope: &Bound<'_, PyAny>) -> Self {
        let agent = current();
        let Ok(scope) = scope.cast::<PyDict>() else {
            return Self::begin(agent, (Arrival::default(), None), RouteId::default(), None);
        };
        let arrival =
            agent.as_ref().map_or_else(Default::default, |agent| arrival_of_scope(&agent.sensors.hooks, scope));
        Self::begin(agent, arrival, RouteId::default(), Some(scope.clone().unbind()))
    }

    /// A request that a WSGI server hands to its application.
    #[staticmethod]
    fn wsgi(environ: &Bound<'_, PyAny>) -> Self {
        let agent = current();
        let Ok(environ) = environ.cast::<PyDict>() else {
            return Self::begin(agent, (Arrival::default(), None), RouteId::default(), None);
        };
        let arrival =
            agent.as_ref().map_or_else(Default::default, |agent| arrival_of_environ(&agent.sensors.hooks, environ));
        Self::begin(agent, arrival, RouteId::default(), None)
    }

    /// The application has answered a WSGI request: its route is known by now.
    fn answered(&self, environ: &Bound<'_, PyAny>) {
        if let (Some(agent), Ok(environ)) = (&self.agent, environ.cast::<PyDict>()) {
            self.route.store(route_of_environ(&agent.sensors.hooks, environ).number(), Ordering::Relaxed);
        }
    }

    /// Ends it; again does nothing.
    fn end(&self, py: Python<'_>) {
        if self.close(py)
            && let Some(agent) = &self.agent
        {
            request_ended(py, agent);
        }
    }
}

impl Mark {
    fn begin(
        agent: Option<Arc<Agent>>,
        (arrival, peer): (Arrival, Option<SocketAddr>),
        route: RouteId,
        scope: Option<Py<PyDict>>,
    ) -> Self {
        let open = agent.as_ref().map_or_else(Open::default, |agent| agent.sensors.hooks.begin(arrival));
        Self {
            open,
            agent,
            ended: AtomicBool::new(false),
            route: AtomicU8::new(route.number()),
            peer,
            scope: Mutex::new(scope),
        }
    }

    /// Whether this has ended it.
    fn close(&self, py: Python<'_>) -> bool {
        let ends = !self.ended.swap(true, Ordering::Relaxed);
        if ends {
            let scope = lock(&self.scope).take();
            if let Some(agent) = &self.agent {
                let route = match scope {
                    Some(scope) => route_of_scope(&agent.sensors.hooks, scope.bind(py)),
                    None => RouteId::from_number(self.route.load(Ordering::Relaxed)),
                };
                agent.sensors.hooks.end(self.open, route, self.peer);
            }
        }
        ends
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if !self.ended.load(Ordering::Relaxed) {
            // It is freed by Python, so this thread holds the GIL.
            let _ = Python::try_attach(|py| self.close(py));
        }
    }
}

/// Where a request comes from, when it arrived and which trace it belongs to.
fn arrival_of_scope(hooks: &Hooks, scope: &Bound<'_, PyDict>) -> (Arrival, Option<SocketAddr>) {
    let py = scope.py();
    let get = |name| item(scope, name);
    let (mut arrival, peer) = hooks.arrival(|| {
        let client = get(intern!(py, "client"))?;
        let pair = client.cast::<PyTuple>().ok().map(|pair| (pair.get_item(0), pair.get_item(1)));
        let (host, port) = pair.unwrap_or_else(|| (client.get_item(0), client.get_item(1)));
        Some(SocketAddr::new(address(&host.ok()?)?, port_of(&port.ok()?)?))
    });
    let Some(headers) = get(intern!(py, "headers")) else { return (arrival, peer) };
    let Ok(headers) = headers.cast::<PyList>() else { return (arrival, peer) };
    for header in headers.iter() {
        let Ok(pair) = header.cast::<PyTuple>() else { continue };
        let Ok(name) = pair.get_borrowed_item(0) else { continue };
        let Ok(name) = name.cast::<PyBytes>() else { continue };
        let is_trace = match name.as_bytes() {
            b"traceparent" => true,
            b"x-request-start" | b"x-queue-start" => false,
            _ => continue,
        };
        let Ok(value) = pair.get_borrowed_item(1) else { continue };
        let Ok(value) = value.cast::<PyBytes>() else { continue };
        if is_trace {
            arrival.trace = trace_id(value.as_bytes()).unwrap_or_default();
        } else {
            sent_by_proxy(&mut arrival, value.as_bytes());
        }
    }
    (arrival, peer)
}

/// The same from the variables of a WSGI request.
fn arrival_of_environ(hooks: &Hooks, environ: &Bound<'_, PyDict>) -> (Arrival, Option<SocketAddr>) {
    let py = environ.py();
    let get = |name| item(environ, name);
    let (mut arrival, peer) = hooks.arrival(|| {
        let port = get(intern!(py, "REMOTE_PORT"))?;
        Some(SocketAddr::new(address(&get(intern!(py, "REMOTE_ADDR"))?)?, port_of(&port)?))
    });
    let with_text = |name, use_it: &mut dyn FnMut(&[u8])| {
        if let Some(value) = get(name)
            && let Ok(text) = value.cast::<PyString>()
            && let Ok(text) = text.to_str()
        {
            use_it(text.as_bytes());
        }
    };
    let mut trace = arrival.trace;
    with_text(intern!(py, "HTTP_TRACEPARENT"), &mut |text| trace = trace_id(text).unwrap_or_default());
    arrival.trace = trace;
    with_text(intern!(py, "HTTP_X_REQUEST_START"), &mut |text| sent_by_proxy(&mut arrival, text));
    with_text(intern!(py, "HTTP_X_QUEUE_START"), &mut |text| sent_by_proxy(&mut arrival, text));
    (arrival, peer)
}

/// A proxy says when it sent the request: that counts where it is longer ago than the arrival of the data.
fn sent_by_proxy(arrival: &mut Arrival, header: &[u8]) {
    if let Some(wait) = queued(header, unix_ns())
        && (wait > arrival.wait || arrival.known == ArrivalSource::Unknown)
    {
        (arrival.wait, arrival.known) = (wait, ArrivalSource::Proxy);
    }
}

fn address(host: &Bound<'_, PyAny>) -> Option<IpAddr> {
    host.cast::<PyString>().ok()?.to_str().ok()?.parse().ok().map(|address: IpAddr| address.to_canonical())
}

/// A port is a number in some servers and a text in others.
fn port_of(port: &Bound<'_, PyAny>) -> Option<u16> {
    match port.cast::<PyString>() {
        Ok(text) => text.to_str().ok()?.parse().ok(),
        Err(_) => port.extract().ok(),
    }
}

/// The route of a request that has ended: what the framework matched, or the path.
fn route_of_scope(hooks: &Hooks, scope: &Bound<'_, PyDict>) -> RouteId {
    let py = scope.py();
    let routes = &hooks.routes;
    let get = |name| item(scope, name);
    if let Some(route) = get(intern!(py, "route"))
        && let Ok(path) = route.getattr(intern!(py, "path"))
        && let Some(found) = with_str(&path, |path| routes.named(path))
    {
        return found;
    }
    // A framework is there, and has found nothing: a client may send any path.
    if get(intern!(py, "app")).is_some() && get(intern!(py, "endpoint")).is_none() {
        return routes.named(NO_ROUTE);
    }
    get(intern!(py, "path")).and_then(|path| with_str(&path, |path| routes.of_path(path))).unwrap_or_default()
}

/// The route of a WSGI request that was answered: what an adapter noted, or the path.
fn route_of_environ(hooks: &Hooks, environ: &Bound<'_, PyDict>) -> RouteId {
    let py = environ.py();
    let routes = &hooks.routes;
    if let Some(rule) = item(environ, intern!(py, "neurogc.route")) {
        return with_str(&rule, |rule| routes.named(rule)).unwrap_or_else(|| routes.named(NO_ROUTE));
    }
    let path = item(environ, intern!(py, "PATH_INFO"));
    path.and_then(|path| with_str(&path, |path| routes.of_path(path))).unwrap_or_default()
}

fn item<'py>(of: &Bound<'py, PyDict>, name: &Bound<'py, PyString>) -> Option<Bound<'py, PyAny>> {
    of.get_item(name).ok().flatten()
}

fn with_str<T>(text: &Bound<'_, PyAny>, use_it: impl FnOnce(&str) -> T) -> Option<T> {
    text.cast::<PyString>().ok()?.to_str().ok().map(use_it)
}
