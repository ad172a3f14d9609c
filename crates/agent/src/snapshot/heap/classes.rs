//! The types of the objects: what each one's instances hold, and how many there are.

use neurogc_ngch::{Kind, TypeFlags};

use super::super::control::WalkTrouble;
use super::builtins::Builtins;
use super::raw::{self, Array};
use super::sizes::before_tracked;
use crate::cpython::heap_layout::HeapLayout;
use crate::cpython::layout::Layout;

/// Bits of `tp_flags`, the same in all versions where they mean anything.
pub(super) const STATIC_BUILTIN: usize = 1 << 1;
pub(super) const INLINE_VALUES: usize = 1 << 2;
pub(super) const MANAGED_WEAKREF: usize = 1 << 3;
pub(super) const MANAGED_DICT: usize = 1 << 4;
pub(super) const HEAP_TYPE: usize = 1 << 9;
pub(super) const HAVE_GC: usize = 1 << 14;
pub(super) const TYPE_SUBCLASS: usize = 1 << 31;
const EXCEPTION_SUBCLASS: usize = 1 << 30;

/// How an instance tells what it refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalkKind {
    /// It refers to nothing.
    Nothing,
    /// It is exactly a list, tuple, dict or set.
    List,
    Tuple,
    Dict,
    Set,
    /// An instance of a class that was written in Python.
    Instance,
    /// Its type tells, by `tp_traverse`.
    Told,
    /// Its type does not tell: words of it that are objects.
    Words,
}

/// One type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    pub(super) address: usize,
    pub(super) kind: Kind,
    pub(super) way: WalkKind,
    pub(super) flags: usize,
    pub(super) basic: usize,
    pub(super) item: usize,
    pub(super) traverse: usize,
    /// The first base that is not written in Python, and how it tells.
    pub(super) native: usize,
    pub(super) native_traverse: usize,
    pub(super) native_basic: usize,
    /// Where instances keep the list of their weak references, or zero.
    pub(super) weak: usize,
    pub(super) is_descriptor: bool,
    /// What every instance takes that the collector tracks, or zero where they differ.
    pub(super) tracked_size: usize,
    pub(super) objects: u64,
    pub(super) bytes: u64,
    /// Its objects in arenas of which little is in use.
    pub(super) pinned: u64,
    /// Its number in the dump.
    pub(super) number: u32,
}

impl Class {
    #[inline(always)]
    pub(super) fn has(&self, flag: usize) -> bool {
        self.flags & flag != 0
    }

    /// Whether its instances hold as many others as the program puts into them.
    #[inline(always)]
    pub(super) fn is_container(&self) -> bool {
        use Kind::{ByteArray, Deque, Dict, List, OrderedDict, Set};
        matches!(self.kind, List | Dict | OrderedDict | Set | Deque | ByteArray)
    }

    /// What the dump says of it.
    pub(super) fn facts(&self, finalizer: bool, knows_memory: bool) -> TypeFlags {
        let may_own = self.way == WalkKind::Words && self.basic > 32 || self.way == WalkKind::Told;
        let native = may_own && !knows_memory;
        let bits = [
            (self.has(HEAP_TYPE), TypeFlags::HEAP),
            (self.has(HAVE_GC), TypeFlags::COLLECTED),
            (native, TypeFlags::NATIVE),
            (finalizer, TypeFlags::FINALIZER),
            (self.is_container(), TypeFlags::CONTAINER),
        ];
        TypeFlags(bits.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum())
    }
}

/// More types than this are not looked at.
const MOST: usize = 1 << 17;
const SLOTS: usize = MOST * 2;

/// All types that were met.
pub(super) struct Classes {
    slots: Array<u32>,
    all: Array<Class>,
    last: (usize, u32),
    layout: &'static Layout,
    heap: &'static HeapLayout,
    builtins: Builtins,
}

impl Classes {
    pub(super) fn new(layout: &'static Layout, heap: &'static HeapLayout, builtins: Builtins) -> Option<Self> {
        let mut slots = Array::new(SLOTS)?;
        slots.fill_fresh(SLOTS);
        Some(Self { slots, all: Array::new(4096)?, last: (0, 0), layout, heap, builtins })
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    #[inline(always)]
    pub(super) fn get(&self, index: u32) -> &Class {
        &self.all.all()[index as usize]
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, index: u32) -> &mut Class {
        &mut self.all.all_mut()[index as usize]
    }

    /// The type at an address, which is taken in if it is new.
    ///
    /// # Safety
    /// It must be the address of a type.
    #[inline(always)]
    pub(super) unsafe fn of(&mut self, address: usize) -> Result<u32, WalkTrouble> {
        if self.last.0 == address {
            return Ok(self.last.1);
        }
        // SAFETY: the caller's promise.
        let index = unsafe { self.look_up(address) }?;
        self.last = (address, index);
        Ok(index)
    }

    /// The type at an address if it is known.
    pub(super) fn known(&self, address: usize) -> Option<u32> {
        let mut at = slot(address);
        loop {
            let index = self.slots.all()[at].checked_sub(1)?;
            if self.get(index).address == address {
                return Some(index);
            }
            at = (at + 1) % SLOTS;
        }
    }

    unsafe fn look_up(&mut self, address: usize) -> Result<u32, WalkTrouble> {
        let mut at = slot(address);
        while let Some(index) = self.slots.all()[at].checked_sub(1) {
            if self.get(index).address == address {
                return Ok(index);
            }
            at = (at + 1) % SLOTS;
        }
        let index = self.all.len() as u32;
        // SAFETY: the caller's promise.
        let class = unsafe { self.examine(address) };
        if index as usize >= MOST {
            return Err(WalkTrouble::TooMany);
        }
        if !self.all.push(class) {
            return Err(WalkTrouble::NoMemory);
        }
        self.slots.all_mut()[at] = index + 1;
        Ok(index)
    }

    unsafe fn examine(&self, address: usize) -> Class {
        let (layout, heap) = (self.layout, self.heap);
        // SAFETY: it is a type of the interpreter with this layout, and so are its bases.
        unsafe {
            let flags = raw::word(address + layout.type_flags);
            let traverse = raw::word(address + layout.type_traverse);
            let mut native = address;
            while native != 0 && raw::word(native + layout.type_traverse) == self.builtins.instance_traverse {
                native = raw::word(native + heap.type_base);
            }
            let kind = self.kind(address, flags);
            let is_exact = self.builtins.is_exact(address);
            let way = match kind {
                _ if traverse == self.builtins.instance_traverse && flags & HAVE_GC != 0 => WalkKind::Instance,
                Kind::List if is_exact => WalkKind::List,
                Kind::Tuple if is_exact => WalkKind::Tuple,
                Kind::Dict if is_exact => WalkKind::Dict,
                Kind::Set if is_exact => WalkKind::Set,
                Kind::Str | Kind::Bytes | Kind::Int | Kind::Float if flags & HAVE_GC == 0 => WalkKind::Nothing,
                _ if flags & HAVE_GC != 0 && traverse != 0 => WalkKind::Told,
                Kind::Code | Kind::Ndarray | Kind::Type => WalkKind::Told,
                _ => WalkKind::Words,
            };
            let native_word = |offset: usize| if native == 0 { 0 } else { raw::word(native + offset) };
            let (basic, item) = (raw::word(address + layout.type_basicsize), raw::word(address + layout.type_itemsize));
            let has_attributes = heap.minor >= 11 && flags & MANAGED_DICT != 0;
            let is_rigid = kind == Kind::Other && item == 0 && !has_attributes;
            Class {
                address,
                kind,
                way,
                flags,
                basic,
                item,
                traverse,
                native,
                native_traverse: native_word(layout.type_traverse),
                native_basic: native_word(layout.type_basicsize),
                weak: usize::try_from(raw::signed(address + layout.type_weaklistoffset)).unwrap_or(0),
                is_descriptor: self.builtins.is_descriptor(address),
                tracked_size: if is_rigid { basic + before_tracked(heap.minor, flags) } else { 0 },
                objects: 0,
                bytes: 0,
                pinned: 0,
                number: 0,
            }
        }
    }

    unsafe fn kind(&self, address: usize, flags: usize) -> Kind {
        if flags & TYPE_SUBCLASS != 0 {
            return Kind::Type;
        }
        if flags & EXCEPTION_SUBCLASS != 0 {
            return Kind::Exception;
        }
        let mut base = address;
        while base != 0 {
            if let Some(kind) = self.builtins.kind(base) {
                return kind;
            }
            // SAFETY: bases of a type are types; names are C strings.
            unsafe {
                match raw::c_string(raw::word(base + self.layout.type_name), 24) {
                    b"collections.deque" => return Kind::Deque,
                    b"array.array" => return Kind::Array,
                    b"numpy.ndarray" => return Kind::Ndarray,
                    b"torch._C.TensorBase" | b"torch._C._TensorBase" => return Kind::Tensor,
                    b"pyarrow.lib.Buffer" | b"pyarrow.lib.Array" | b"pyarrow.lib.ChunkedArray" => return Kind::Arrow,
                    b"pyarrow.lib.RecordBatch" | b"pyarrow.lib.Table" => return Kind::Arrow,
                    b"_asyncio.Task" => return Kind::Task,
                    b"_asyncio.Future" => return Kind::Future,
                    _ => base = raw::word(base + self.heap.type_base),
                }
            }
        }
        Kind::Other
    }

    /// Numbers the types, those with the most of something first, and gives their order.
    pub(super) fn rank(&mut self, by: impl Fn(&Class) -> u64) -> Option<Array<u32>> {
        let mut order = Array::new(self.len().max(1))?;
        for index in 0..self.len() as u32 {
            order.push(index);
        }
        // Sorting in place takes no memory.
        order.all_mut().sort_unstable_by_key(|index| std::cmp::Reverse(by(self.get(*index))));
        for (number, index) in order.all().iter().enumerate() {
            self.all.all_mut()[*index as usize].number = number as u32;
        }
        Some(order)
    }
}

fn slot(address: usize) -> usize {
    (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOTS.trailing_zeros())
}

/// Attribute names that instances or dicts share: CPython's key tables, by address.
pub(super) struct Shapes {
    slots: Array<u32>,
    all: Array<usize>,
}

impl Shapes {
    pub(super) fn new() -> Option<Self> {
        let mut slots = Array::new(SLOTS)?;
        slots.fill_fresh(SLOTS);
        Some(Self { slots, all: Array::new(1024)? })
    }

    /// The number of a key table, which is taken in if it is new.
    pub(super) fn add(&mut self, keys: usize) -> Result<u32, WalkTrouble> {
        let mut at = slot(keys);
        while let Some(index) = self.slots.all()[at].checked_sub(1) {
            if self.all.all()[index as usize] == keys {
                return Ok(index);
            }
            at = (at + 1) % SLOTS;
        }
        let index = self.all.len() as u32;
        if index as usize >= MOST {
            return Err(WalkTrouble::TooMany);
        }
        if !self.all.push(keys) {
            return Err(WalkTrouble::NoMemory);
        }
        self.slots.all_mut()[at] = index + 1;
        Ok(index)
    }

    /// The number of a key table that was taken in.
    pub(super) fn number(&self, keys: usize) -> Option<u32> {
        let mut at = slot(keys);
        loop {
            let index = self.slots.all()[at].checked_sub(1)?;
            if self.all.all()[index as usize] == keys {
                return Some(index);
            }
            at = (at + 1) % SLOTS;
        }
    }

    pub(super) fn all(&self) -> &[usize] {
        self.all.all()
    }
}
