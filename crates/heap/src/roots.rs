//! Reachability: what the program holds, from the roots that a person knows to those that only a count tells of.
//!
//! The order is: named roots (`sys.modules`, frames, the interpreter, images of C code), classes that only their
//! instances hold, then what is "held from C". An object is held from C if its count is larger than all references that
//! the dump knows. That is the collector's own argument, so that reachability never depends on finding C variables. What
//! even this does not reach is garbage that is not collected yet.

use std::io;

use crate::array::Numbers;
use crate::graph::{Graph, NONE};
use crate::search::Search;

/// Something outside of the heap that refers to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The object.
    pub object: u32,
    /// Whether it is a counted reference. A word in a C image or on a running stack may be left behind: it counts only
    /// together with a count that is larger than what is known.
    pub certain: bool,
    /// Whether it makes the object a root only where nothing else reaches it. A frame refers to its globals, and an
    /// image of C code to modules: as ways of their own they would only make the tree flat.
    pub last_resort: bool,
}

/// Why an object is a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A claim, by its place in the list.
    Claim(u32),
    /// It is a class that only its instances hold.
    Class,
    /// It has no count: the interpreter keeps it for ever.
    Immortal,
    /// Its count is larger than what is known.
    FromC,
}

/// What counts say of an object beyond the references that are known.
const IMMORTAL: u8 = 1;
const SURPLUS: u8 = 2;

/// What was found on the way.
#[derive(Debug)]
pub(crate) struct Reach<'g> {
    pub(crate) search: Search<'g>,
    /// The roots of the search and why they are roots.
    pub(crate) reasons: Vec<(u32, Reason)>,
    /// For each object, what its count says.
    outside: Numbers<u8>,
    /// Claims that were none.
    pub(crate) stale: usize,
}

impl Reach<'_> {
    /// Why an object without a holder is held from outside, if it is.
    pub(crate) fn outside(&self, object: u32) -> Option<Reason> {
        match self.outside[object as usize] {
            IMMORTAL => Some(Reason::Immortal),
            SURPLUS => Some(Reason::FromC),
            _ => None,
        }
    }
}

/// Goes from all roots to what they reach. `held` is how often each object is referred to, and `counts` are reference
/// counts, 0 for immortal objects. `classes` has the
/// object of each type whose instances hold it, or [`NONE`]. Claims are in the order in which a person knows them.
pub(crate) fn reach<'g>(
    graph: &'g Graph,
    mut held: Numbers<u32>,
    counts: Numbers<u32>,
    classes: &[u32],
    claims: &[Claim],
) -> io::Result<Reach<'g>> {
    let search = Search::new(&graph.links, &held)?;
    {
        let held: &mut [u32] = &mut held;
        for class in graph.types.iter().map(|it| classes.get(*it as usize).copied().unwrap_or(NONE)) {
            if class != NONE {
                held[class as usize] += 1;
            }
        }
        claims.iter().filter(|claim| claim.certain).for_each(|claim| held[claim.object as usize] += 1);
    }
    let mut outside = Numbers::<u8>::zeroed(graph.objects())?;
    // What nothing in the heap refers to comes first: what it holds is then below it, not beside it.
    let mut topmost = Vec::new();
    for (object, says) in outside.iter_mut().enumerate() {
        let (count, known) = (counts[object], held[object]);
        *says = if count == 0 { IMMORTAL } else { u8::from(count > known) * SURPLUS };
        if *says != 0 && known == 0 && !search.leaves_out(object as u32) {
            topmost.push(object as u32);
        }
    }
    drop((counts, held));

    // Whether a class is reached must be known, so that none is left out.
    let mut search = search;
    classes.iter().filter(|class| **class != NONE).for_each(|class| search.keep(*class));
    let mut reach = Reach { search, reasons: Vec::new(), outside, stale: 0 };
    let believed = |reach: &Reach<'_>, claim: &Claim| claim.certain || reach.outside[claim.object as usize] != 0;
    claims.iter().for_each(|claim| {
        if believed(&reach, claim) {
            reach.search.keep(claim.object);
        }
    });
    for last_resort in [false, true] {
        for (place, claim) in claims.iter().enumerate().filter(|(_, claim)| claim.last_resort == last_resort) {
            let reason = Reason::Claim(place as u32);
            match (believed(&reach, claim), last_resort) {
                (false, _) => reach.stale += 1,
                (true, false) => reach.way(claim.object, reason),
                (true, true) => reach.root(claim.object, reason),
            }
        }
    }
    reach.classes(graph, classes);
    for object in topmost.into_iter().chain(0..graph.objects() as u32) {
        if let Some(reason) = reach.outside(object)
            && !reach.search.leaves_out(object)
        {
            reach.root(object, reason);
        }
    }
    reach.classes(graph, classes);
    Ok(reach)
}

/// How often each object is referred to.
pub(crate) fn held(graph: &Graph) -> io::Result<Numbers<u32>> {
    let mut held = Numbers::zeroed(graph.objects())?;
    let counted: &mut [u32] = &mut held;
    for target in graph.links.targets.iter() {
        counted[*target as usize] += 1;
    }
    Ok(held)
}

impl Reach<'_> {
    /// Makes an object a root unless it is reached already.
    fn root(&mut self, object: u32, reason: Reason) {
        if !self.search.met(object) {
            self.way(object, reason);
        }
    }

    /// Makes an object a root: one more way to it if it is reached already.
    fn way(&mut self, object: u32, reason: Reason) {
        self.reasons.push((object, reason));
        self.search.go(object);
    }

    /// Classes that only instances hold. A reference from each instance would be a third more references, so that they
    /// become roots instead. An instance that the search leaves out counts as reached.
    fn classes(&mut self, graph: &Graph, classes: &[u32]) {
        loop {
            let open = |reach: &Self, class: u32| class != NONE && !reach.search.met(class);
            let mut wanted: Vec<bool> = classes.iter().map(|class| open(self, *class)).collect();
            if !wanted.contains(&true) {
                return;
            }
            let mut found = Vec::new();
            for (object, of) in graph.types.iter().enumerate() {
                let object = object as u32;
                if wanted.get(*of as usize) == Some(&true)
                    && (self.search.met(object) || self.search.leaves_out(object))
                {
                    wanted[*of as usize] = false;
                    found.push(classes[*of as usize]);
                }
            }
            if found.is_empty() {
                return;
            }
            found.into_iter().for_each(|class| self.root(class, Reason::Class));
        }
    }
}
