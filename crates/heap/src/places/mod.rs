//! HeapPlaces: objects by where they are in the tree of dominators, not by address.
//!
//! A place is a type and a name below another place: `app.registry.sessions[…]` of type `app.Session`. Names of attributes
//! and of globals are kept, positions and keys are not, and what nests in itself (a linked list, a tree) is one place. So
//! a heap of millions of objects has some hundreds of places, and the same ones in the next dump.

mod labels;

use std::io;

use rustc_hash::FxHashMap;

use crate::heap::Heap;
use crate::names::{Names, is_identifier, quoted};
use crate::paths::{PathStart, Paths};
use labels::{EdgeLabel, EdgeLabels};

/// The place above all.
pub const TOP: u32 = 0;

/// Places that are kept apart at most; further ones are added up by type.
const MOST_PLACES: usize = 1 << 20;

/// How many steps up a place is compared with: a tree whose nodes alternate with containers folds.
const NESTING: usize = 4;

/// A dict with at most so many entries has names for its keys, near a global.
const FEW_KEYS: usize = 64;

/// How many steps below a global that is so.
const NAMED_KEYS: u8 = 2;

/// Something that several objects hold gets the name of its shortest path if it retains so much.
const WORTH_A_PATH: u64 = 4096;

/// What stands for a name where there is none.
const SOMEWHERE: &str = "[…]";

/// A place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeapPlace {
    /// The place above; the topmost is its own.
    pub parent: u32,
    /// The type of its objects.
    pub class: u32,
    /// How the step from the place above is written, in [`HeapPlaces::labels`].
    pub label: u32,
    /// How that is to be read.
    style: LabelStyle,
    /// Objects.
    pub objects: u64,
    /// Their own bytes.
    pub bytes: u64,
    /// What they retain.
    pub retained: u64,
    /// The object that retains most.
    pub example: u32,
    /// How many further steps have names for keys.
    keys: u8,
}

/// How a label continues the name of the place above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LabelStyle {
    /// It is added, and may repeat one above.
    Added,
    /// It is added: a global or a key that has its name.
    Fixed,
    /// It is a whole name.
    Whole,
    /// `sys.modules`: the next label is a whole name.
    Modules,
    /// A dict of attributes, which is not written.
    Namespace,
    /// The globals of a module: it is a whole name, and the dict is not written.
    Globals,
}

impl LabelStyle {
    /// Whether a place of this kind has its name whatever is above it, so that it stands at the top.
    fn stands_alone(self) -> bool {
        matches!(self, Self::Whole | Self::Globals)
    }
}

/// All places of a heap.
#[derive(Debug)]
pub struct HeapPlaces {
    /// The places. One above comes before those below it.
    pub nodes: Vec<HeapPlace>,
    /// Texts of labels.
    pub labels: Vec<String>,
    /// Names of types, by type.
    pub types: Vec<String>,
}

struct Builder<'h> {
    heap: &'h Heap,
    paths: &'h Paths,
    edges: EdgeLabels,
    places: HeapPlaces,
    known: FxHashMap<(u32, u32, u32), u32>,
    texts: FxHashMap<String, u32>,
    /// The labels of names of attributes, by name.
    attributes: Vec<u32>,
}

impl HeapPlaces {
    /// Adds up a heap by place.
    ///
    /// # Errors
    ///
    /// If there is no memory for it.
    pub fn of(heap: &Heap, paths: &Paths) -> io::Result<Self> {
        let edges = EdgeLabels::of(heap)?;
        let types = heap.dump.tables.types.iter().map(|it| it.name.clone()).collect();
        let root = HeapPlace {
            parent: TOP,
            class: heap.dump.tables.unreadable(),
            label: 0,
            style: LabelStyle::Whole,
            objects: 0,
            bytes: 0,
            retained: heap.reached_bytes(),
            example: heap.tree.root(),
            keys: 0,
        };
        let places = Self { nodes: vec![root], labels: Vec::new(), types };
        let mut builder = Builder {
            heap,
            paths,
            edges,
            places,
            known: FxHashMap::default(),
            texts: FxHashMap::default(),
            attributes: Vec::new(),
        };
        builder.text("");
        builder.attributes = builder.edges.names.clone().iter().map(|name| builder.text(&format!(".{name}"))).collect();
        builder.fill();
        Ok(builder.places)
    }

    /// The name of a place, as a programmer would write it.
    #[must_use]
    pub fn name(&self, place: u32) -> String {
        let mut way = vec![place];
        let mut at = place;
        while at != TOP && !self.nodes[at as usize].style.stands_alone() {
            at = self.nodes[at as usize].parent;
            way.push(at);
        }
        let mut text = String::new();
        let mut modules = false;
        for place in way.into_iter().rev().filter(|place| *place != TOP) {
            let node = &self.nodes[place as usize];
            let label = &self.labels[node.label as usize];
            match node.style {
                LabelStyle::Whole | LabelStyle::Globals => text.clone_from(label),
                LabelStyle::Modules => text = "sys.modules".to_owned(),
                LabelStyle::Fixed if modules => label.trim_start_matches('.').clone_into(&mut text),
                // Containers within containers are written once.
                LabelStyle::Added if label == SOMEWHERE && text.ends_with(SOMEWHERE) => {}
                LabelStyle::Added | LabelStyle::Fixed => text.push_str(label),
                LabelStyle::Namespace => {}
            }
            modules = node.style == LabelStyle::Modules;
        }
        if matches!(self.nodes[place as usize].style, LabelStyle::Namespace | LabelStyle::Globals) {
            text.push_str(".__dict__");
        }
        text
    }

    /// The name of a place's type.
    #[must_use]
    pub fn class(&self, place: u32) -> &str {
        self.types.get(self.nodes[place as usize].class as usize).map_or("", String::as_str)
    }
}

impl Builder<'_> {
    fn text(&mut self, text: &str) -> u32 {
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        self.places.labels.push(text.to_owned());
        let place = self.places.labels.len() as u32 - 1;
        self.texts.insert(text.to_owned(), place);
        place
    }

    /// Goes down the tree of dominators and gives each object its place.
    fn fill(&mut self) {
        let heap = self.heap;
        let root = heap.tree.root();
        let mut open = vec![(root, TOP)];
        while let Some((holder, above)) = open.pop() {
            let children = heap.tree.children(holder);
            let few = children.len() <= FEW_KEYS;
            for child in children {
                let place = self.place(holder, above, *child, few);
                let retained = heap.retained(*child);
                let node = &mut self.places.nodes[place as usize];
                node.objects += 1;
                node.bytes += heap.graph.sizes.of(*child);
                // What is below another object of the same place is a part of what that retains.
                if place != above {
                    node.retained += retained;
                }
                let moved = node.style.stands_alone() && above != TOP;
                if node.example == root || retained > heap.retained(node.example) {
                    node.example = *child;
                }
                if moved {
                    self.take_away(above, retained);
                }
                if !heap.tree.children(*child).is_empty() {
                    open.push((*child, place));
                }
            }
        }
    }

    /// What stands at the top is not a part of the places below which it was found. A name that is the same in every
    /// dump is worth more than the exact holder, which changes with any further reference.
    fn take_away(&mut self, from: u32, retained: u64) {
        let mut at = from;
        while at != TOP {
            let node = &mut self.places.nodes[at as usize];
            node.retained = node.retained.saturating_sub(retained);
            if node.style.stands_alone() {
                break;
            }
            at = node.parent;
        }
    }

    fn place(&mut self, holder: u32, above: u32, child: u32, few: bool) -> u32 {
        let class = self.heap.graph.types[child as usize];
        let (label, style, keys) = self.label(holder, above, child, few);
        if style == LabelStyle::Added
            && let Some(same) = self.nesting(above, class, label)
        {
            return same;
        }
        let above = if style.stands_alone() { TOP } else { above };
        let full = self.places.nodes.len() >= MOST_PLACES;
        let (label, style) = if full { (self.text(SOMEWHERE), LabelStyle::Added) } else { (label, style) };
        let places = &mut self.places;
        *self.known.entry((above, class, label)).or_insert_with(|| {
            places.nodes.push(HeapPlace {
                parent: above,
                class,
                label,
                style,
                objects: 0,
                bytes: 0,
                retained: 0,
                example: self.heap.tree.root(),
                keys,
            });
            places.nodes.len() as u32 - 1
        })
    }

    /// The place above that this one repeats: a node that refers to the next one by an attribute, or the same step as
    /// some steps above.
    fn nesting(&self, above: u32, class: u32, label: u32) -> Option<u32> {
        let nodes = &self.places.nodes;
        let direct = &nodes[above as usize];
        if above != TOP && direct.class == class && self.is_attribute(label) {
            return Some(above);
        }
        let mut at = above;
        for _ in 0..NESTING {
            let node = &nodes[at as usize];
            if at == TOP || node.style != LabelStyle::Added {
                return None;
            }
            if node.class == class && node.label == label {
                return Some(at);
            }
            at = node.parent;
        }
        None
    }

    fn is_attribute(&self, label: u32) -> bool {
        let text = &self.places.labels[label as usize];
        text.starts_with('.') && !text.starts_with(".<")
    }

    /// What the step to a child is called, and how many further steps have names for keys.
    fn label(&mut self, holder: u32, above: u32, child: u32, few: bool) -> (u32, LabelStyle, u8) {
        if let Some(module) = self.globals(child) {
            return (self.text(&module), LabelStyle::Globals, 0);
        }
        if holder == self.heap.tree.root() {
            return self.top_label(child);
        }
        let node = &self.places.nodes[above as usize];
        let (style, keys) = (node.style, node.keys);
        match self.edges.label(child) {
            EdgeLabel::Name(name) => (self.attributes[name as usize], LabelStyle::Added, keys.saturating_sub(1)),
            EdgeLabel::Namespace => (0, LabelStyle::Namespace, keys),
            EdgeLabel::Value(key) => match style {
                LabelStyle::Modules | LabelStyle::Namespace | LabelStyle::Globals => {
                    let text = self.global(key);
                    (self.text(&text), LabelStyle::Fixed, NAMED_KEYS)
                }
                _ if keys > 0 && few => {
                    let text = format!("[{}]", Names::of(self.heap).repr(key));
                    (self.text(&text), LabelStyle::Fixed, keys - 1)
                }
                _ => (self.text(SOMEWHERE), LabelStyle::Added, 0),
            },
            EdgeLabel::Index => (self.text(SOMEWHERE), LabelStyle::Added, 0),
            EdgeLabel::Variable(place) => {
                let name = Names::of(self.heap).generator_variable(holder, place.into());
                let text = format!("(): {}", name.as_deref().unwrap_or("…"));
                (self.text(&text), LabelStyle::Added, 0)
            }
            EdgeLabel::Plain => (self.text(".<member>"), LabelStyle::Added, 0),
            EdgeLabel::None => match self.path_label(child) {
                Some(text) => (self.text(&text), LabelStyle::Whole, 0),
                None => (self.text(".<several>"), LabelStyle::Added, 0),
            },
        }
    }

    /// The module whose globals an object is.
    fn globals(&self, child: u32) -> Option<String> {
        let is_dict = self.heap.kind(child) == neurogc_ngch::Kind::Dict;
        let holder = self.heap.tree.holders[child as usize];
        let below_module = holder == self.heap.tree.root()
            || self.heap.kind(holder) == neurogc_ngch::Kind::Module
            || self.edges.label(child) == EdgeLabel::None;
        if is_dict && below_module { Names::of(self.heap).globals_of(child) } else { None }
    }

    fn global(&self, key: u32) -> String {
        let names = Names::of(self.heap);
        match names.whole_text(key) {
            Some(name) if name.split('.').all(is_identifier) => format!(".{name}"),
            Some(name) => format!("[{}]", quoted(&name, true)),
            None => SOMEWHERE.to_owned(),
        }
    }

    /// The name of what no other object holds alone.
    fn top_label(&mut self, child: u32) -> (u32, LabelStyle, u8) {
        use neurogc_ngch::RootKind;
        let names = Names::of(self.heap);
        let named = self.heap.named_root(child).copied();
        match (named, self.heap.reasons.get(&child)) {
            (Some(root), _) if root.kind == RootKind::Modules => (self.text("sys.modules"), LabelStyle::Modules, 0),
            (Some(root), _) if root.kind == RootKind::Image => {
                let text = names.image(root.a);
                (self.text(&text), LabelStyle::Whole, 0)
            }
            // A global that is a variable as well has the name of the global.
            (Some(root), _) if root.kind == RootKind::Local => {
                let text = self.path_label(child).unwrap_or_else(|| names.root_name(&root));
                (self.text(&text), LabelStyle::Whole, 0)
            }
            (Some(root), _) => {
                let text = names.root_name(&root);
                (self.text(&text), LabelStyle::Whole, 0)
            }
            (None, Some(reason)) => {
                use crate::roots::Reason;
                let text = match reason {
                    Reason::Class => names.object(child),
                    Reason::Immortal => "interpreter".to_owned(),
                    _ => "held from C".to_owned(),
                };
                (self.text(&text), LabelStyle::Whole, 0)
            }
            (None, None) => {
                let text = self.path_label(child).unwrap_or_else(|| "held by several".to_owned());
                (self.text(&text), LabelStyle::Whole, 0)
            }
        }
    }

    /// The shortest path to an object that is worth a name of its own.
    fn path_label(&self, child: u32) -> Option<String> {
        let worth = self.heap.retained(child) >= WORTH_A_PATH && !self.heap.graph.links.is_leaf(child);
        let path = worth.then(|| self.paths.to(child))?;
        let from_root = path.first().and_then(|first| self.paths.start(*first));
        if matches!(from_root, Some(PathStart::Root(crate::roots::Reason::FromC))) {
            return None;
        }
        Names::of(self.heap).folded_path(self.paths, child)
    }
}
