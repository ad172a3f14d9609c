//! A path as an expression: `app.cache["user:42"].items[3].parent`.

use neurogc_ngch::{FramePart, InterpreterPart, Kind, RootKind, RootRow};

use super::{Names, PathStep, is_identifier};
use crate::paths::{PathStart, Paths};
use crate::roots::Reason;

/// Steps that are written; of a longer path the middle is left out.
const MOST_STEPS: usize = 40;

/// Writes one step after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expression {
    pub(crate) text: String,
    /// Whether the last object is a dict of attributes whose name was not written.
    namespace: bool,
    /// The function whose closure the last object is.
    closure: Option<u32>,
    /// Whether the last object is a cell whose variable was written.
    cell: bool,
    /// Whether the last object is `sys.modules`, whose items are written as modules.
    modules: bool,
}

impl Expression {
    /// Adds a step. Positions and keys become `[…]` if the expression is to fit many objects.
    pub(crate) fn push(&mut self, names: &Names<'_>, from: u32, step: &PathStep, to: u32, folded: bool) {
        let (namespace, closure, cell) = (self.namespace, self.closure.take(), self.cell);
        let modules = std::mem::take(&mut self.modules);
        (self.namespace, self.cell) = (false, false);
        match step {
            PathStep::Item(_, Some(name)) if modules => self.text.clone_from(name),
            PathStep::Namespace => self.namespace = true,
            PathStep::Attribute(name) => {
                if name == "__closure__" {
                    self.closure = Some(from);
                }
                self.dot(name);
            }
            PathStep::Item(_, Some(name)) if namespace && is_identifier(name) => self.dot(name),
            PathStep::Item(..) | PathStep::Index(_) if folded && closure.is_none() && !namespace => {
                // A tree that nests is written once.
                if !self.text.ends_with("[…]") {
                    self.text.push_str("[…]");
                }
            }
            PathStep::Item(key, _) => self.text.push_str(&format!("[{key}]")),
            PathStep::Index(place) => {
                let name = closure.and_then(|function| names.closure_variable(function, from, *place));
                self.cell = name.is_some() && names.heap.kind(to) == Kind::Cell;
                self.text.push_str(&match name {
                    Some(name) => format!("[{}]", super::quoted(&name, true)),
                    None => format!("[{place}]"),
                });
            }
            PathStep::Key(_) if folded => self.text.push_str(".<key>"),
            PathStep::Key(key) => self.text.push_str(&format!(".<key {key}>")),
            PathStep::Variable(name) => {
                self.cell = names.heap.kind(to) == Kind::Cell;
                self.text.push_str(&format!("(): {name}"));
            }
            PathStep::Cell if cell => {}
            PathStep::Cell => self.dot("cell_contents"),
            PathStep::Member => self.text.push_str(".<member>"),
            PathStep::Word(word) => self.text.push_str(&format!(".<word {word}>")),
        }
    }

    fn dot(&mut self, name: &str) {
        self.text.push('.');
        self.text.push_str(name);
    }

    /// The text. The dict of attributes is named if the path ends there.
    pub(crate) fn finish(mut self) -> String {
        if self.namespace {
            self.dot("__dict__");
        }
        self.text
    }
}

impl Names<'_> {
    /// The shortest path to an object as an expression; none for garbage.
    #[must_use]
    pub fn path(&self, paths: &Paths, object: u32) -> Option<String> {
        self.expression(paths, &paths.to(object), false)
    }

    /// The same with positions and keys as `[…]`.
    #[must_use]
    pub fn folded_path(&self, paths: &Paths, object: u32) -> Option<String> {
        self.expression(paths, &paths.to(object), true)
    }

    /// The shortest path to a holder, and on to an object that it refers to.
    pub(crate) fn path_through(&self, paths: &Paths, holder: u32, object: u32) -> Option<String> {
        let mut path = paths.to(holder);
        path.first()?;
        path.push(object);
        self.expression(paths, &path, false)
    }

    /// What a path that begins at an object is called before its first step.
    pub(crate) fn beginning(&self, start: PathStart, object: u32) -> Expression {
        let (text, modules) = self.start(start, object);
        Expression {
            text,
            modules,
            namespace: self.is_globals_root(start),
            // A variable that a closure shares is in a cell, which is not written.
            cell: self.heap.kind(object) == Kind::Cell,
            closure: None,
        }
    }

    fn expression(&self, paths: &Paths, path: &[u32], folded: bool) -> Option<String> {
        let first = *path.first()?;
        let mut expression = self.beginning(paths.start(first)?, first);
        let steps: Vec<_> = path.windows(2).collect();
        let left_out = steps.len().saturating_sub(MOST_STEPS);
        let head = if left_out > 0 { MOST_STEPS / 2 } else { steps.len() };
        let mut last = None;
        for (place, pair) in steps.iter().enumerate() {
            if place >= head && place < head + left_out {
                continue;
            }
            if place > 0 && place == head + left_out {
                expression.text.push_str(&format!(" … {left_out} steps … "));
            }
            let step = self.step(pair[0], pair[1]);
            // A linked list is written once where it only says the same again.
            let again = folded && last.as_ref() == Some(&step) && matches!(step, PathStep::Attribute(_));
            if !again {
                expression.push(self, pair[0], &step, pair[1], folded);
            }
            last = Some(step);
        }
        Some(expression.finish())
    }

    /// Whether a path begins at a dict of attributes.
    fn is_globals_root(&self, start: PathStart) -> bool {
        match start {
            PathStart::Root(Reason::Claim(place)) => {
                self.heap.dump.tables.roots.get(place as usize).is_some_and(|root| match root.kind {
                    RootKind::Interpreter => {
                        root.a == InterpreterPart::Sys as u32 || root.a == InterpreterPart::Builtins as u32
                    }
                    _ => false,
                })
            }
            _ => false,
        }
    }

    /// What a path begins with, and whether that is `sys.modules`.
    fn start(&self, start: PathStart, object: u32) -> (String, bool) {
        let text = match start {
            PathStart::Task(place) => {
                let task = self.heap.dump.tables.tasks.get(place as usize);
                format!("task {}", task.and_then(|task| self.task(task.object)).unwrap_or_else(|| "?".to_owned()))
            }
            PathStart::Root(Reason::Claim(place)) => match self.heap.dump.tables.roots.get(place as usize) {
                Some(root) => return (self.root_name(root), root.kind == RootKind::Modules),
                None => "?".to_owned(),
            },
            PathStart::Root(Reason::Class) => self.object(object),
            PathStart::Root(Reason::Immortal) => format!("interpreter: {}", self.object(object)),
            PathStart::Root(Reason::FromC) => format!("held from C: {}", self.object(object)),
        };
        (text, false)
    }

    /// What a root is called.
    #[must_use]
    pub fn root_name(&self, root: &RootRow) -> String {
        match root.kind {
            RootKind::Modules => "sys.modules".to_owned(),
            RootKind::Local => format!("{}: {}", self.frame_with_thread(root.a), self.local(root.a, root.b)),
            RootKind::Frame => {
                let part = match FramePart::of(root.b) {
                    Some(FramePart::Code) => "code",
                    Some(FramePart::Function) => "function",
                    Some(FramePart::Locals) => "locals",
                    Some(FramePart::Globals) => "globals",
                    Some(FramePart::Builtins) => "builtins",
                    Some(FramePart::Object) | None => "frame",
                };
                format!("{}: <{part}>", self.frame_with_thread(root.a))
            }
            RootKind::Stack => format!("{}: <stack>", self.frame_with_thread(root.a)),
            RootKind::Interpreter => match InterpreterPart::of(root.a.into()) {
                Some(InterpreterPart::Sys) => "sys".to_owned(),
                Some(InterpreterPart::Builtins) => "builtins".to_owned(),
                Some(InterpreterPart::Garbage) => "gc.garbage".to_owned(),
                Some(InterpreterPart::Callbacks) => "gc.callbacks".to_owned(),
                Some(InterpreterPart::Other) | None => "interpreter".to_owned(),
            },
            RootKind::Thread => format!("state of {}", self.thread(root.a)),
            RootKind::Image => {
                let image = self.heap.dump.tables.images.get(root.a as usize);
                let start = image.map_or(0, |image| image.start);
                format!("{}+{:#x}", self.image(root.a), start.wrapping_add(root.b))
            }
        }
    }

    /// The file name of an image.
    #[must_use]
    pub fn image(&self, image: u32) -> String {
        match self.heap.dump.tables.images.get(image as usize) {
            Some(known) if known.path.is_empty() => "python".to_owned(),
            Some(known) => known.path.rsplit('/').next().unwrap_or_default().to_owned(),
            None => format!("image {image}"),
        }
    }
}
