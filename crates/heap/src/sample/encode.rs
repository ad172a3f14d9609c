//! A made-up heap as the bytes of a dump.

use neurogc_ngch::{
    BlockHead, COLUMNS, DumpColumn, Foot, ImageRow, ObjectRow, PASSES, Predicted, RunKind, ShapeRow, Tag, ThreadRow,
    Totals, TypeFlags, TypeMember, TypeRow, padding, put_integer, put_section_head, put_tail, put_text_head,
    put_varint, put_withheld,
};

use super::{HeapSample, SampleObject};

/// References of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReferenceRun {
    /// Without names.
    Plain(Vec<u32>),
    /// By position.
    Index(Vec<Option<u32>>),
    /// Keys and values.
    Pairs(Vec<(u32, u32)>),
    /// Attributes of the type's shape.
    Attributes(Vec<Option<u32>>),
    /// Words and what they refer to.
    Fields(Vec<(u64, u32)>),
    /// Attributes of a shape.
    Split(u32, Vec<Option<u32>>),
}

impl ReferenceRun {
    /// What it refers to.
    pub fn targets(&self) -> Vec<u32> {
        match self {
            Self::Plain(targets) => targets.clone(),
            Self::Index(slots) | Self::Attributes(slots) | Self::Split(_, slots) => {
                slots.iter().flatten().copied().collect()
            }
            Self::Pairs(pairs) => pairs.iter().flat_map(|(key, value)| [*key, *value]).collect(),
            Self::Fields(fields) => fields.iter().map(|(_, target)| *target).collect(),
        }
    }

    fn put(&self, to: &mut Vec<u8>, predicted: &mut Predicted) {
        let slots = |to: &mut Vec<u8>, predicted: &mut Predicted, slots: &[Option<u32>]| {
            slots.iter().for_each(|slot| predicted.put_slot(to, *slot));
        };
        match self {
            Self::Plain(targets) => {
                RunKind::Plain.put(to, targets.len() as u64);
                targets.iter().for_each(|target| predicted.put(to, *target));
            }
            Self::Index(all) => {
                RunKind::Index.put(to, all.len() as u64);
                slots(to, predicted, all);
            }
            Self::Attributes(all) => {
                RunKind::Attributes.put(to, all.len() as u64);
                slots(to, predicted, all);
            }
            Self::Split(shape, all) => {
                RunKind::Split.put(to, all.len() as u64);
                put_varint(to, (*shape).into());
                slots(to, predicted, all);
            }
            Self::Pairs(pairs) => {
                RunKind::Pairs.put(to, pairs.len() as u64);
                for (key, value) in pairs {
                    predicted.put_key(to, *key);
                    predicted.put(to, *value);
                }
            }
            Self::Fields(fields) => {
                RunKind::Fields.put(to, fields.len() as u64);
                for (word, target) in fields {
                    put_varint(to, *word);
                    predicted.put(to, *target);
                }
            }
        }
    }
}

/// The value of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SampleValue {
    /// Of a string.
    Text(String),
    /// Of a string of this length whose text is withheld.
    Withheld(u64),
    /// Of an integer.
    Integer(i64),
}

/// The sections of a file, one after the other.
struct Sectioned {
    bytes: Vec<u8>,
    offsets: Vec<u64>,
}

impl Sectioned {
    fn push(&mut self, tag: Tag, body: &[u8]) {
        self.offsets.push(self.bytes.len() as u64);
        let head = put_section_head(tag, crc32fast::hash(body), body.len() as u64);
        self.bytes.extend_from_slice(&head);
        self.bytes.extend_from_slice(body);
        self.bytes.resize(self.bytes.len() + padding(body.len() as u64), 0);
    }
}

/// A block that is being filled.
#[derive(Default)]
struct Filling {
    head: BlockHead,
    columns: [Vec<u8>; COLUMNS],
    last: u64,
}

impl Filling {
    fn row(&mut self, row: &ObjectRow) {
        if self.head.objects == 0 {
            (self.head.first, self.head.address, self.last) = (row.number, row.address, row.address);
        }
        row.encode(self.last, &mut self.columns);
        self.last = row.address;
        self.head.objects += 1;
        self.head.bytes += row.size;
    }

    fn finish(&mut self, to: &mut Sectioned) {
        if self.head.objects == 0 {
            return;
        }
        self.head.lengths = std::array::from_fn(|column| self.columns[column].len() as u64);
        let mut body = self.head.encode().to_vec();
        self.columns.iter().for_each(|column| body.extend_from_slice(column));
        to.push(Tag::Block, &body);
        *self = Self::default();
    }
}

/// Where a made-up object is: the address that the dump gives it.
pub fn address(object: u32) -> u64 {
    0x7f00_0000_0000 + u64::from(object) * 64
}

impl HeapSample {
    /// The dump.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut head = self.head;
        head.objects = self.objects.len() as u64;
        let mut file = Sectioned { bytes: head.encode().to_vec(), offsets: Vec::new() };
        file.push(Tag::Types, &self.put_types());
        file.push(Tag::Shapes, &self.put_shapes());
        file.push(Tag::Threads, &self.put_threads());
        let rows = |count: usize| {
            let mut body = Vec::new();
            put_varint(&mut body, count as u64);
            body
        };
        let mut body = rows(self.frames.len());
        self.frames.iter().for_each(|frame| frame.put(&mut body));
        file.push(Tag::Frames, &body);
        let mut body = rows(self.tasks.len());
        self.tasks.iter().for_each(|task| task.put(&mut body));
        file.push(Tag::Tasks, &body);
        let mut body = rows(self.images.len());
        for path in &self.images {
            ImageRow { base: 0x1000, start: 0x3000, length: 0x800, path: path.as_bytes() }.put(&mut body);
        }
        file.push(Tag::Images, &body);
        let mut body = rows(self.roots.len());
        self.roots.iter().for_each(|root| root.put(&mut body));
        file.push(Tag::Roots, &body);
        let totals = self.put_objects(&mut file);
        let foot = file.bytes.len() as u64;
        let mut body = Vec::new();
        Foot::put(&totals, file.offsets.len() as u64, &mut body);
        let mut last = 0;
        for offset in &file.offsets {
            put_varint(&mut body, offset - last);
            last = *offset;
        }
        file.push(Tag::Foot, &body);
        file.bytes.extend_from_slice(&put_tail(foot));
        file.bytes
    }

    fn put_types(&self) -> Vec<u8> {
        let mut body = Vec::new();
        put_varint(&mut body, self.types.len() as u64);
        for it in &self.types {
            let row = TypeRow {
                object: it.object,
                kind: it.kind,
                flags: TypeFlags(it.flags),
                basic: 16,
                item: 0,
                objects: 0,
                shape: it.shape,
                base: None,
                name: it.name.as_bytes(),
                members: neurogc_ngch::Members::none(),
            };
            row.put(&mut body);
            put_varint(&mut body, it.members.len() as u64);
            for (word, name) in &it.members {
                TypeMember { word: *word, name: name.as_bytes() }.put(&mut body);
            }
        }
        body
    }

    fn put_shapes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        put_varint(&mut body, self.shapes.len() as u64);
        for names in &self.shapes {
            put_varint(&mut body, names.len() as u64);
            names.iter().for_each(|name| ShapeRow::put_name(&mut body, *name));
        }
        body
    }

    fn put_threads(&self) -> Vec<u8> {
        let mut body = Vec::new();
        put_varint(&mut body, self.threads.len() as u64);
        for (place, name) in self.threads.iter().enumerate() {
            let number = 100 + place as u64;
            ThreadRow { ident: number, native: number, current: place == 0, name: name.as_bytes() }.put(&mut body);
        }
        body
    }

    /// As many as refer to each object: references, certain roots, instances of a class, and what is not in the dump.
    fn counts(&self) -> Vec<u64> {
        let mut counts: Vec<u64> = self.objects.iter().map(|it| it.surplus).collect();
        for object in &self.objects {
            object.runs.iter().flat_map(ReferenceRun::targets).for_each(|target| counts[target as usize] += 1);
            let of = &self.types[object.class as usize];
            if let Some(class) = of.object.filter(|_| of.flags & TypeFlags::HEAP != 0) {
                counts[class as usize] += 1;
            }
        }
        self.roots.iter().for_each(|root| counts[root.object as usize] += 1);
        for (count, object) in counts.iter_mut().zip(&self.objects) {
            *count = if object.immortal { 0 } else { (*count).max(1) };
        }
        counts
    }

    fn put_objects(&self, file: &mut Sectioned) -> Totals {
        let counts = self.counts();
        let mut totals = Totals { passes_ns: [1; PASSES], pause_ns: 2_000_000, ..Totals::default() };
        let mut block = Filling::default();
        for (number, object) in self.objects.iter().enumerate() {
            let number = number as u32;
            let row = ObjectRow {
                number,
                address: address(number),
                class: object.class,
                tracked: !object.runs.is_empty(),
                size: object.size,
                count: counts[number as usize],
            };
            block.row(&row);
            totals.objects += 1;
            totals.bytes += object.size;
            totals.tracked += u64::from(row.tracked);
            totals.references += self.put_references(object, &row, &mut block, file);
            put_value(&mut block.columns[DumpColumn::Values as usize], object);
            if block.head.objects as usize >= self.block {
                block.finish(file);
            }
        }
        block.finish(file);
        totals
    }

    /// Writes the runs of an object; one that has many of them goes on in further blocks.
    fn put_references(&self, object: &SampleObject, row: &ObjectRow, block: &mut Filling, file: &mut Sectioned) -> u64 {
        let mut predicted = Predicted::start(row.number);
        let (mut all, mut here) = (0, 0);
        for run in &object.runs {
            let references = run.targets().len();
            if here > 0 && here + references > self.most_references {
                Predicted::end(&mut block.columns[DumpColumn::References as usize]);
                block.finish(file);
                block.head.continues = true;
                block.row(&ObjectRow { size: 0, ..*row });
                predicted = Predicted::start(row.number);
                here = 0;
            }
            run.put(&mut block.columns[DumpColumn::References as usize], &mut predicted);
            block.head.references += references as u64;
            all += references as u64;
            here += references;
        }
        Predicted::end(&mut block.columns[DumpColumn::References as usize]);
        all
    }
}

fn put_value(to: &mut Vec<u8>, object: &SampleObject) {
    match &object.value {
        Some(SampleValue::Integer(value)) => put_integer(to, Some(*value)),
        Some(SampleValue::Withheld(length)) => put_withheld(to, *length),
        Some(SampleValue::Text(text)) => {
            let units: Vec<char> = text.chars().collect();
            let kept = units.len().min(64);
            let width = if units.iter().all(|unit| (*unit as u32) < 256) { 1_u8 } else { 4 };
            let bytes: Vec<u8> =
                units.iter().flat_map(|unit| (*unit as u32).to_le_bytes().into_iter().take(width.into())).collect();
            put_text_head(to, kept as u64, units.len() as u64, width, neurogc_ngch::hash(&bytes));
            to.extend_from_slice(&bytes[..kept * usize::from(width)]);
        }
        None => {}
    }
}
