//! The numbers that stand for kinds of objects, roots and states.

macro_rules! numbered {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $number:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$doc])* $variant = $number,)*
        }

        impl $name {
            /// The one with this number.
            #[must_use]
            pub fn of(number: u64) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

numbered! {
    /// What a type is or derives from, as far as the dump treats it specially.
    Kind {
        /// Anything else.
        Other = 0,
        /// `list`.
        List = 1,
        /// `tuple`.
        Tuple = 2,
        /// `dict`.
        Dict = 3,
        /// `collections.OrderedDict`.
        OrderedDict = 4,
        /// `set` and `frozenset`.
        Set = 5,
        /// `str`: the object has a value.
        Str = 6,
        /// `bytes`.
        Bytes = 7,
        /// `bytearray`.
        ByteArray = 8,
        /// `int`, and so `bool`: the object has a value.
        Int = 9,
        /// `float`.
        Float = 10,
        /// `type`: the object is a class.
        Type = 11,
        /// Code objects.
        Code = 12,
        /// Functions written in Python.
        Function = 13,
        /// Generators, coroutines and asynchronous generators.
        Generator = 14,
        /// Frame objects.
        Frame = 15,
        /// Modules.
        Module = 16,
        /// Cells of closures.
        Cell = 17,
        /// Weak references and proxies.
        Weakref = 18,
        /// `collections.deque`.
        Deque = 19,
        /// `array.array`.
        Array = 20,
        /// `numpy.ndarray`.
        Ndarray = 21,
        /// Methods bound to an object.
        Method = 22,
        /// Futures of asyncio, tasks excepted.
        Future = 23,
        /// Tasks of asyncio.
        Task = 24,
        /// Exceptions.
        Exception = 25,
        /// Tracebacks.
        Traceback = 26,
        /// Tensors of torch. The first one that is met of those that share memory has its size.
        Tensor = 27,
        /// Buffers, arrays, batches and tables of Arrow. As with tensors, the first one that is met has the size.
        Arrow = 28,
    }
}

numbered! {
    /// What holds an object from outside of the heap.
    RootKind {
        /// `sys.modules`.
        Modules = 1,
        /// A local variable: `a` is the frame, `b` the number of the variable in `co_localsplusnames`.
        Local = 2,
        /// A part of a frame: `a` is the frame, `b` a [`FramePart`].
        Frame = 3,
        /// A value on a frame's stack, found by guess if the frame runs: `a` is the frame, `b` the slot.
        Stack = 4,
        /// The interpreter's state: `a` is an [`InterpreterPart`], `b` the byte offset if the part is not known.
        Interpreter = 5,
        /// A thread's state: `a` is the thread, `b` the byte offset.
        Thread = 6,
        /// A word in a loaded file's writable memory: `a` is the image, `b` the byte offset in it.
        Image = 7,
    }
}

numbered! {
    /// Which part of a frame holds an object.
    FramePart {
        /// Its code.
        Code = 0,
        /// Its function.
        Function = 1,
        /// Its dict of locals (modules and class bodies).
        Locals = 2,
        /// Its frame object.
        Object = 3,
        /// Its globals.
        Globals = 4,
        /// Its builtins.
        Builtins = 5,
    }
}

numbered! {
    /// Which part of the interpreter's state holds an object.
    InterpreterPart {
        /// A part that has no name here.
        Other = 0,
        /// The dict of `sys`.
        Sys = 1,
        /// The dict of `builtins`.
        Builtins = 2,
        /// `gc.garbage`.
        Garbage = 3,
        /// `gc.callbacks`.
        Callbacks = 4,
    }
}

numbered! {
    /// The state of a future or a task.
    TaskState {
        /// It is not done.
        Pending = 0,
        /// It was cancelled.
        Cancelled = 1,
        /// It has a result or an exception.
        Finished = 2,
        /// The dump does not know.
        Unknown = 3,
    }
}

/// Facts about a type, as bits.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TypeFlags(pub u64);

impl TypeFlags {
    /// The class was made at run time.
    pub const HEAP: u64 = 1;
    /// CPython's collector knows instances of it.
    pub const COLLECTED: u64 = 2;
    /// Instances may own memory that the sizes do not include, because the type does not tell.
    pub const NATIVE: u64 = 4;
    /// The class, or a base of it, has `__del__`.
    pub const FINALIZER: u64 = 8;
    /// Instances are containers that the program fills: list, dict, set, deque, bytearray and what derives from them.
    pub const CONTAINER: u64 = 16;

    /// Whether this bit is set.
    #[must_use]
    pub fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }
}
