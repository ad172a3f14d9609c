//! A dump that is understood: graph, roots, dominators and retained sizes together.

use neurogc_ngch::{InterpreterPart, Kind, RootKind, RootRow};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::graph::Graph;
use crate::names::Names;
use crate::reader::{Dump, DumpError, HeapType, Loaded};
use crate::roots::{Claim, Reason, held, reach};
use crate::tree::{HolderTree, tree};

/// What an analysis is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapStep {
    /// It reads objects.
    Read,
    /// It looks for what the roots reach.
    Reach,
    /// It looks for who holds what alone, and adds up sizes.
    Retain,
    /// It looks for the shortest ways from the roots.
    Paths,
    /// It adds up by place.
    Places,
}

impl HeapStep {
    /// All steps in their order, with the share of the time that they take.
    pub const ALL: [(Self, &'static str, f64); 5] = [
        (Self::Read, "reading objects", 0.15),
        (Self::Reach, "following references from the roots", 0.25),
        (Self::Retain, "finding holders and retained sizes", 0.35),
        (Self::Paths, "finding shortest paths", 0.15),
        (Self::Places, "adding up by place", 0.10),
    ];

    /// What it does, in a few words.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(it, _, _)| *it == self).map_or("", |(_, name, _)| name)
    }
}

/// Is told what an analysis begins.
pub type HeapProgress<'p> = &'p mut dyn FnMut(HeapStep);

/// A dump with everything that was found out about it.
#[derive(Debug)]
pub struct Heap {
    /// The dump.
    pub dump: Dump,
    /// Its objects.
    pub graph: Graph,
    /// Who holds what.
    pub tree: HolderTree,
    /// The roots with the reason of each: of several the first, which is the one that a person knows best.
    pub reasons: FxHashMap<u32, Reason>,
    /// Words that look like references and are none.
    pub stale: usize,
    /// All bytes, reached or not.
    pub bytes: u64,
}

impl Heap {
    /// Loads a dump and finds out who holds what.
    ///
    /// # Errors
    ///
    /// If there is no memory for it.
    pub fn analyse(mut dump: Dump, progress: HeapProgress<'_>) -> Result<Self, DumpError> {
        progress(HeapStep::Read);
        dump.tables.roots.sort_by_key(|root| (rank(root), root.a, root.b));
        let Loaded { mut graph, counts } = dump.load()?;
        progress(HeapStep::Reach);
        let held = held(&graph)?;
        leave_out_globals(&dump, &mut graph);
        let claims: Vec<Claim> = dump.tables.roots.iter().map(claim).collect();
        let mut reach = reach(&graph, held, counts, &dump.tables.classes(), &claims)?;
        progress(HeapStep::Retain);
        let tree = tree(&graph, &mut reach)?;
        let mut reasons = FxHashMap::default();
        for (object, reason) in &reach.reasons {
            reasons.entry(*object).or_insert(*reason);
        }
        let (stale, bytes) = (reach.stale, graph.bytes());
        drop(reach);
        let mut heap = Self { dump, graph, tree, reasons, stale, bytes };
        let names: Vec<_> = (0..heap.dump.tables.threads.len()).map(|it| Names::of(&heap).python_thread(it)).collect();
        for (thread, name) in heap.dump.tables.threads.iter_mut().zip(names) {
            thread.name = name.unwrap_or_else(|| std::mem::take(&mut thread.name));
        }
        Ok(heap)
    }

    /// The type of an object.
    #[must_use]
    pub fn type_of(&self, object: u32) -> &HeapType {
        &self.dump.tables.types[self.graph.types[object as usize] as usize]
    }

    /// What kind of object it is.
    #[must_use]
    pub fn kind(&self, object: u32) -> Kind {
        self.type_of(object).kind
    }

    /// What an object retains.
    #[must_use]
    pub fn retained(&self, object: u32) -> u64 {
        self.tree.retained[object as usize]
    }

    /// All bytes that roots reach.
    #[must_use]
    pub fn reached_bytes(&self) -> u64 {
        self.retained(self.tree.root())
    }

    /// A share of the bytes that roots reach.
    #[must_use]
    pub fn share(&self, bytes: u64) -> f64 {
        bytes as f64 / (self.reached_bytes().max(1)) as f64
    }

    /// The root that is the reason for an object, if it is a named one.
    #[must_use]
    pub fn named_root(&self, object: u32) -> Option<&RootRow> {
        match self.reasons.get(&object)? {
            Reason::Claim(place) => self.dump.tables.roots.get(*place as usize),
            _ => None,
        }
    }
}

/// Takes the references of functions to the globals of their modules out of the graph, and those of globals to the
/// builtins. A module that is loaded holds its globals anyway: as ways of their own these references would only hide
/// that.
fn leave_out_globals(dump: &Dump, graph: &mut Graph) {
    let kind = |graph: &Graph, object: u32| dump.tables.types[graph.types[object as usize] as usize].kind;
    let loaded = dump.tables.roots.iter().find(|root| root.kind == RootKind::Modules).map(|root| root.object);
    let modules = loaded.map(|modules| graph.links.of(modules).to_vec()).unwrap_or_default();
    let globals: FxHashSet<u32> = modules
        .into_iter()
        .filter(|module| kind(graph, *module) == Kind::Module)
        .flat_map(|module| graph.links.of(module).to_vec())
        .filter(|dict| kind(graph, *dict) == Kind::Dict)
        .collect();
    let functions: Vec<bool> = dump.tables.types.iter().map(|it| it.kind == Kind::Function).collect();
    for object in 0..graph.objects() as u32 {
        if functions[graph.types[object as usize] as usize] || globals.contains(&object) {
            // A reference to itself says nothing, and keeps all others where they are.
            for target in graph.links.of_mut(object) {
                if globals.contains(target) {
                    *target = object;
                }
            }
        }
    }
}

/// In which order a person knows roots.
pub(crate) fn rank(root: &RootRow) -> u8 {
    match root.kind {
        RootKind::Modules => 0,
        RootKind::Local => 1,
        RootKind::Frame => 2,
        RootKind::Interpreter if is_named_part(root) => 3,
        RootKind::Interpreter => 4,
        RootKind::Thread => 5,
        RootKind::Stack => 6,
        RootKind::Image => 7,
    }
}

fn is_named_part(root: &RootRow) -> bool {
    root.a != InterpreterPart::Other as u32
}

fn claim(root: &RootRow) -> Claim {
    let certain = match root.kind {
        RootKind::Modules | RootKind::Local | RootKind::Frame => true,
        RootKind::Interpreter => is_named_part(root),
        RootKind::Stack | RootKind::Thread | RootKind::Image => false,
    };
    let last_resort = !matches!(root.kind, RootKind::Modules | RootKind::Local);
    Claim { object: root.object, certain, last_resort }
}
